import type { MediaObject } from "../moqt/session.js";

/** The status of an object that says that its group has none with this or a larger id. */
export const endOfGroup = 3;

/** How long to wait for a missing object before the next group begins, in milliseconds. */
const patience = 150;
/** How long to wait for a missing object on which no other depends, since the next important one came. */
const shortPatience = 100;
/** A publisher with more subgroups than this has no layers. */
const maxLayers = 16;
/** The largest number of groups at a time, as in player/sub. Media needs far fewer. */
const maxGroups = 1024;

/** How many bytes may wait behind a gap, as in player/sub. */
const maxHeld = 64 << 20;
/** What an object takes beside its bytes, roughly. */
const overhead = 256;

function sizeOf(o: MediaObject): number {
  let size = o.payload.length + overhead;
  for (const p of o.properties?.values() ?? []) size += typeof p === "number" ? overhead : p.length + overhead;
  return size;
}

/** Group is what is known of a group that has not been left. */
class Group {
  readonly objects = new Map<number, MediaObject>(); // that have not been released
  readonly latest = new Map<number, number>(); // the largest id that a subgroup has brought
  held = 0; // bytes of these objects
  end = Infinity; // the number of objects, if it is known
  waited = 0; // what is missing before this object has been waited for
  private fetched = false;
  private streamed = Infinity; // the first object that was not fetched

  add(o: MediaObject): void {
    if (o.status === endOfGroup) this.end = o.object;
    else if (!this.objects.has(o.object)) {
      this.objects.set(o.object, o);
      this.held += sizeOf(o);
    }
    this.latest.set(o.subgroup, Math.max(o.object, this.latest.get(o.subgroup) ?? 0));
    if (o.status === endOfGroup) return;
    if (o.arrival) this.streamed = Math.min(this.streamed, o.object);
    else this.fetched = true;
  }

  /** take returns an object, and forgets it. */
  take(object: number): MediaObject | undefined {
    const o = this.objects.get(object);
    if (!o) return undefined;
    this.objects.delete(object);
    this.held -= sizeOf(o);
    return o;
  }

  /** mayBeFetched reports whether a missing object may still come by a fetch. */
  mayBeFetched(object: number): boolean {
    return this.fetched && object < this.streamed;
  }
}

/**
 * Sequencer puts the objects of a track in order. Those of a fetch and of a subscription come at the same time, those of
 * several subgroups on streams of their own. It begins with the first object of a group, and leaves a group with a gap
 * when the next one is there and has waited.
 *
 * Where frames on which no other depends have a subgroup of their own, the last one, a missing one costs only itself.
 */
export class Sequencer {
  private readonly groups = new Map<number, Group>();
  private readonly layers = new Set<number>(); // subgroups that have had more than one object of a group
  private group = -1; // the current one
  private object = 0; // the next one of it
  private timer: ReturnType<typeof setTimeout> | undefined;
  /** lost counts the groups that were left before their end. */
  lost = 0;

  constructor(private readonly release: (o: MediaObject) => void) {}

  push(o: MediaObject): void {
    if (this.isOver(o) || (o.status !== 0 && o.status !== endOfGroup)) return;
    const group = this.groups.get(o.group) ?? new Group();
    this.groups.set(o.group, group);
    if (this.groups.size > maxGroups) this.groups.delete(Math.min(...this.groups.keys()));
    const before = group.latest.get(o.subgroup);
    if (before !== undefined && before !== o.object && o.status === 0) this.learn(o.subgroup);
    group.add(o);
    this.drain();
    while (this.held() > maxHeld) this.leave();
    if (this.isOver(o)) return;
    setTimeout(() => {
      group.waited = Math.max(group.waited, o.object);
      this.drain();
    }, shortPatience);
  }

  close(): void {
    clearTimeout(this.timer);
    this.groups.clear();
  }

  private learn(layer: number): void {
    this.layers.add(layer);
    if (this.layers.size > maxLayers) this.layers.clear();
  }

  private isOver(o: MediaObject): boolean {
    return o.group < this.group || (o.group === this.group && o.object < this.object);
  }

  private drain(): void {
    if (this.group < 0 && !this.advance()) return;
    for (let group; (group = this.groups.get(this.group)); ) {
      const next = group.take(this.object);
      if (next) {
        this.object++;
        this.release(next);
      } else if (this.object === group.end) {
        if (!this.advance()) break;
      } else if (this.canSpare(group)) {
        this.object = Math.min(...group.objects.keys(), group.end);
      } else {
        break;
      }
    }
    if (this.timer === undefined && this.newest() !== undefined) {
      this.timer = setTimeout(() => this.giveUp(), patience);
    }
  }

  /**
   * canSpare reports whether the next object, which is missing, is one on which no other depends. A stream brings the
   * objects of its subgroup in order. So what is missing between them is of another one: of the last one, if all others
   * are further.
   */
  private canSpare(group: Group): boolean {
    if (this.object >= group.waited || group.mayBeFetched(this.object)) return false;
    const layers = [...this.layers].sort((a, b) => a - b);
    // A single one after that of the key frames may be all that the relay lets through.
    const important = layers.length > 1 ? layers.slice(0, -1) : layers.filter((subgroup) => subgroup > 0);
    return important.length > 0 && important.every((subgroup) => (group.latest.get(subgroup) ?? 0) > this.object);
  }

  /** giveUp leaves the current group, if a newer one has waited long enough. */
  private giveUp(): void {
    this.timer = undefined;
    if (this.newest() === undefined) return;
    this.lost++;
    this.advance();
    this.drain();
  }

  private held(): number {
    let held = 0;
    for (const group of this.groups.values()) held += group.held;
    return held;
  }

  /** leave gives up the current group: too much waits behind its gap. If none can follow, all that waits goes. */
  private leave(): void {
    this.lost++;
    if (!this.advance()) {
      this.groups.clear();
      this.object = Infinity; // the rest of the current group is over
      if (this.group >= 0) this.groups.set(this.group, new Group());
    }
    this.drain();
  }

  /** newest returns the newest group that can be begun. */
  private newest(): number | undefined {
    const begun = [...this.groups].filter(([id, { objects }]) => id > this.group && objects.has(0));
    return begun.length > 0 ? Math.max(...begun.map(([id]) => id)) : undefined;
  }

  /** advance goes to the next group: the one that follows, or else the newest. */
  private advance(): boolean {
    const follows = this.group >= 0 && this.groups.get(this.group + 1)?.objects.has(0) ? this.group + 1 : undefined;
    const to = follows ?? this.newest();
    if (to === undefined) return false;
    this.group = to;
    this.object = 0;
    for (const id of this.groups.keys()) if (id < to) this.groups.delete(id);
    clearTimeout(this.timer);
    this.timer = undefined;
    return true;
  }
}
