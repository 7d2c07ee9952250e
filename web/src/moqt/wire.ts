// Integers, names and parameters as they are on the wire (draft-ietf-moq-transport-18 §1.4, §10.2, and draft-20 §10.2).

import type { Draft } from "./draft.js";
import { type Filter, readFilter, writeFilter } from "./filter.js";

/** A namespace is a list of fields. */
export type Namespace = string[];

/** Location is a place in a track. */
export interface Location {
  group: number;
  object: number;
}

const utf8 = new TextEncoder();
const text = new TextDecoder();

/** Writer collects the bytes of a message. */
export class Writer {
  private readonly parts: number[] = [];

  get bytes(): Uint8Array<ArrayBuffer> {
    return Uint8Array.from(this.parts);
  }

  byte(b: number): this {
    this.parts.push(b & 0xff);
    return this;
  }

  raw(b: Iterable<number>): this {
    for (const x of b) this.parts.push(x);
    return this;
  }

  /** int writes an unsigned integer: the leading ones of its first byte tell how many bytes follow. */
  int(n: number): this {
    if (!Number.isSafeInteger(n) || n < 0) throw new RangeError(`${n} is not a safe unsigned integer`);
    let length = 1;
    while (length < 8 && n >= 2 ** (7 * length)) length++;
    const bytes: number[] = [];
    for (let i = 0, rest = n; i < length; i++, rest = Math.floor(rest / 256)) bytes.unshift(rest % 256);
    bytes[0]! |= (0xff00 >> (length - 1)) & 0xff;
    return this.raw(bytes);
  }

  /** prefixed writes a length and that many bytes. */
  prefixed(b: Uint8Array | string): this {
    const bytes = typeof b === "string" ? utf8.encode(b) : b;
    return this.int(bytes.length).raw(bytes);
  }

  namespace(ns: Namespace): this {
    this.int(ns.length);
    for (const field of ns) this.prefixed(field);
    return this;
  }

  location(l: Location): this {
    return this.int(l.group).int(l.object);
  }
}

/** Parser takes a message apart. */
export class Parser {
  private at = 0;

  constructor(private readonly b: Uint8Array) {}

  get empty(): boolean {
    return this.at >= this.b.length;
  }

  byte(): number {
    const b = this.b[this.at++];
    if (b === undefined) throw new ProtocolError("a message ends within a field");
    return b;
  }

  int(): number {
    const first = this.byte();
    return decodeInt(first, this.take(lengthAfter(first)));
  }

  take(n: number): Uint8Array {
    if (this.at + n > this.b.length) throw new ProtocolError("a message ends within a field");
    return this.b.subarray(this.at, (this.at += n));
  }

  rest(): Uint8Array {
    return this.take(this.b.length - this.at);
  }

  prefixed(): Uint8Array {
    return this.take(this.int());
  }

  string(): string {
    return text.decode(this.prefixed());
  }

  namespace(): Namespace {
    return Array.from({ length: Math.min(this.int(), 32) }, () => this.string());
  }

  location(): Location {
    return { group: this.int(), object: this.int() };
  }
}

/** lengthAfter returns how many bytes of an integer follow its first one. */
export function lengthAfter(first: number): number {
  return Math.clz32(~(first << 24));
}

/** decodeInt makes an integer of its first byte and of those that follow. Beyond 2^53 it is not exact. */
export function decodeInt(first: number, after: Uint8Array): number {
  let value = after.length >= 7 ? 0 : first & (0x7f >> after.length);
  for (const b of after) value = value * 256 + b;
  return value;
}

/** ProtocolError is a violation of the protocol by the relay. */
export class ProtocolError extends Error {
  override name = "ProtocolError";
}

/** Parameters of a message that this client knows. */
export interface Parameters {
  token?: string;
  rendezvous?: number; // ms to wait for a publisher
  expires?: number;
  largest?: Location;
  forward?: boolean;
  priority?: number;
  filter?: Filter;
  groupOrder?: number;
  newGroup?: number;
  playback?: Playback;
}

/** Playback is what a player tells the relay about itself (docs/moqt.md). What is not known is left out. */
export interface Playback {
  buffered?: number; // ms of media that wait to be shown
  dropped: number; // pictures that were decoded too late
  width: number; // of the display, in pixels
  height: number;
}

const enum Param {
  ObjectTimeout = 0x02,
  Token = 0x03,
  Rendezvous = 0x04,
  SubgroupTimeout = 0x06,
  Expires = 0x08,
  Largest = 0x09,
  FillTimeout = 0x0a,
  Forward = 0x10,
  Priority = 0x20,
  Filter = 0x21,
  GroupOrder = 0x22,
  Fill = 0x23, // since draft 20
  NewGroup = 0x32,
  Prefix = 0x34,
  IncludeProperties = 0x35, // since draft 20
  Playback = 0x511ce6, // of Sluice
}

/** writeParameters writes the count and the parameters, in ascending order of type. */
export function writeParameters(w: Writer, p: Parameters, draft: Draft): void {
  const list: [Param, (w: Writer) => unknown][] = [];
  // The token goes with each request as a value: nothing of it is kept at the relay.
  if (p.token) {
    const token = new Writer().int(3).int(0).raw(utf8.encode(p.token)).bytes;
    list.push([Param.Token, (w) => w.prefixed(token)]);
  }
  if (p.rendezvous) list.push([Param.Rendezvous, (w) => w.int(p.rendezvous!)]);
  if (p.largest) list.push([Param.Largest, (w) => w.location(p.largest!)]);
  if (p.forward !== undefined) list.push([Param.Forward, (w) => w.byte(p.forward ? 1 : 0)]);
  if (p.priority !== undefined) list.push([Param.Priority, (w) => w.byte(p.priority!)]);
  if (p.filter) list.push([Param.Filter, (w) => writeFilter(w, p.filter!, draft)]);
  if (p.newGroup !== undefined) list.push([Param.NewGroup, (w) => w.int(p.newGroup!)]);
  if (p.playback) list.push([Param.Playback, (w) => writePlayback(w, p.playback!)]);
  w.int(list.length);
  let last = 0;
  for (const [type, write] of list) {
    w.int(type - last);
    write(w);
    last = type;
  }
}

function writePlayback(w: Writer, { buffered, dropped, width, height }: Playback): void {
  w.int(buffered === undefined ? 0 : buffered + 1).int(dropped).int(width).int(height);
}

/** readParameters reads the count and the parameters. Unknown ones cannot be skipped (§10.2). */
export function readParameters(r: Parser, draft: Draft): Parameters {
  const p: Parameters = {};
  let type = 0;
  for (let n = r.int(); n > 0; n--) {
    type += r.int();
    switch (type as Param) {
      case Param.Token:
      case Param.Fill: // a publisher of few groups has nothing to add
        r.prefixed();
        break;
      case Param.IncludeProperties: // there are none
        r.byte();
        break;
      case Param.Largest:
        p.largest = r.location();
        break;
      case Param.Forward:
        p.forward = r.byte() === 1;
        break;
      case Param.Priority:
        p.priority = r.byte();
        break;
      case Param.GroupOrder:
        p.groupOrder = r.byte();
        break;
      case Param.Filter: {
        const filter = readFilter(r, draft);
        if (filter) p.filter = filter;
        break;
      }
      case Param.Expires:
        p.expires = r.int();
        break;
      case Param.Rendezvous:
        p.rendezvous = r.int();
        break;
      case Param.NewGroup:
        p.newGroup = r.int();
        break;
      case Param.ObjectTimeout:
      case Param.SubgroupTimeout:
      case Param.FillTimeout:
        r.int();
        break;
      case Param.Prefix:
        r.namespace();
        break;
      default:
        throw new ProtocolError(`parameter ${type} is not known`);
    }
  }
  return p;
}

/** Properties are Key-Value-Pairs: numbers for even types, bytes for odd ones (§1.4.3). */
export type Properties = Map<number, number | Uint8Array>;

export function readProperties(b: Uint8Array): Properties {
  const r = new Parser(b);
  const p: Properties = new Map();
  for (let type = 0; !r.empty; ) {
    type += r.int();
    p.set(type, type % 2 === 0 ? r.int() : r.prefixed());
  }
  return p;
}

export function writeProperties(p: Properties): Uint8Array {
  const w = new Writer();
  let last = 0;
  for (const type of [...p.keys()].sort((a, b) => a - b)) {
    const value = p.get(type)!;
    w.int(type - last);
    if (typeof value === "number") w.int(value);
    else w.prefixed(value);
    last = type;
  }
  return w.bytes;
}
