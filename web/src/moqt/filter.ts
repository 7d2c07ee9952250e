import type { Draft } from "./draft.js";
import { type Location, Parser, ProtocolError, Writer } from "./wire.js";

/**
 * Filter says which objects of a track a request is for (draft-18 §5.1.2, draft-20 §5.1.2): what follows the largest
 * object; from the group on that is so many before the next one; or a range. Both ends of a range are included.
 */
export type Filter = "next object" | { groups: number } | Range;

/** Range are the objects from start on, up to last if there is one. */
export interface Range {
  start: Location;
  last?: Location;
}

/** nextGroup passes the groups that have not begun. */
export const nextGroup: Filter = { groups: 0 };

/** wholeGroup is the last object of a range that ends with a group. */
export const wholeGroup = Infinity;

/** writeFilter writes the parameter's value: since draft 22 without its length. */
export function writeFilter(w: Writer, f: Filter, draft: Draft): void {
  const value = new Writer();
  if (draft < 20) {
    writeTyped(value, f);
  } else if (draft < 22) {
    for (const n of f === "next object" ? [0, 0] : fields(f)) value.int(n);
  } else {
    value.int(f === "next object" ? 5 : fields(f).length);
    if (f !== "next object") for (const n of fields(f)) value.int(n);
    w.raw(value.bytes);
    return;
  }
  w.prefixed(value.bytes);
}

/** writeTyped writes what drafts 18 and 19 have: a range ends with a group. */
function writeTyped(w: Writer, f: Filter): void {
  if (f === "next object") {
    w.int(2);
  } else if ("groups" in f) {
    if (f.groups > 0) throw new RangeError("a filter cannot start before the next group in this draft");
    w.int(1);
  } else {
    if (f.last && f.last.object !== wholeGroup) throw new RangeError("a filter cannot end within a group in this draft");
    w.int(f.last ? 4 : 3).location(f.start);
    if (f.last) w.int(f.last.group - f.start.group);
  }
}

/** fields are the numbers of a filter since draft 20. */
function fields(f: Exclude<Filter, "next object">): number[] {
  if ("groups" in f) return [f.groups];
  const all = [f.start.group, f.start.object];
  if (f.last) all.push(f.last.group - f.start.group);
  if (f.last && f.last.object !== wholeGroup) all.push(f.last.object);
  return all;
}

/** readFilter reads the parameter's value. It returns undefined for one that passes everything. */
export function readFilter(r: Parser, draft: Draft): Filter | undefined {
  if (draft < 20) return readTyped(new Parser(r.prefixed()));
  if (draft < 22) {
    const value = new Parser(r.prefixed());
    const numbers: number[] = [];
    while (!value.empty && numbers.length < 4) numbers.push(value.int());
    if (numbers.length === 2 && numbers[0] === 0 && numbers[1] === 0) return "next object";
    return filterOf(numbers);
  }
  const type = r.int();
  if (type === 5) return "next object";
  if (type > 5) throw new ProtocolError(`location filter ${type} is not known`);
  return filterOf(Array.from({ length: type }, () => r.int()));
}

function readTyped(r: Parser): Filter {
  const type = r.int();
  switch (type) {
    case 1:
      return nextGroup;
    case 2:
      return "next object";
    case 3:
      return { start: r.location() };
    case 4: {
      const start = r.location();
      return { start, last: { group: start.group + r.int(), object: wholeGroup } };
    }
  }
  throw new ProtocolError(`subscription filter ${type} is not known`);
}

/** filterOf is the reverse of fields. */
function filterOf([group, object, delta, last]: number[]): Filter | undefined {
  if (group === undefined) return undefined;
  if (object === undefined) return { groups: group };
  const start = { group, object };
  return delta === undefined ? { start } : { start, last: { group: group + delta, object: last ?? wholeGroup } };
}

/** rangeOf returns the objects for which a FETCH with a filter asks, up to the largest one of the track. */
export function rangeOf(f: Filter | undefined, largest: Location): Range {
  if (f === "next object") return { start: { group: largest.group, object: largest.object + 1 }, last: largest };
  if (f === undefined) return { start: { group: 0, object: 0 }, last: largest };
  if ("groups" in f) return { start: { group: Math.max(0, largest.group + 1 - f.groups), object: 0 }, last: largest };
  return f;
}
