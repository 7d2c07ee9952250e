import { createFile, DataStream, Endianness, type ISOFile, MP4BoxBuffer, type Sample } from "mp4box";
import type { MediaObject } from "../moqt/session.js";
import { type Properties, readProperties } from "../moqt/wire.js";
import type { Track } from "./catalog.js";

/** Frame is an encoded frame of video, or a piece of audio. Times are in microseconds. */
export interface Frame {
  time: number;
  duration: number;
  key: boolean;
  data: Uint8Array<ArrayBuffer>;
}

/** Demuxer takes objects of a track apart. */
export interface Demuxer {
  /** description is what the decoder wants to know of the codec, if anything. */
  readonly description: Uint8Array<ArrayBuffer> | undefined;
  /** frames returns the frames of an object. The first object of each group has a key frame. */
  frames(o: MediaObject): Frame[];
}

/** checked returns a frame whose times a decoder takes: a timescale of zero, for example, makes others. */
function checked(f: Frame): Frame {
  const { time, duration } = f;
  if (Number.isSafeInteger(time) && Number.isSafeInteger(duration) && duration >= 0) return f;
  throw new Error(`a frame has the time ${time} and the duration ${duration}: they must be safe integers`);
}

export function newDemuxer(track: Track): Demuxer {
  if (track.packaging === "loc") return new LocDemuxer(track);
  if (track.packaging !== "cmaf") return new HangDemuxer(track);
  if (!track.init) throw new Error(`there is no init segment of track ${track.name}`);
  return new CmafDemuxer(track.init);
}

/**
 * CmafDemuxer parses chunks of fragmented MP4. It begins anew with each group: the library keeps all boxes that it has
 * parsed, and a broadcast has no end.
 */
class CmafDemuxer implements Demuxer {
  readonly description: Uint8Array<ArrayBuffer> | undefined;
  private file!: ISOFile;
  private offset = 0;
  private group = -1;
  private samples: Sample[] = [];
  private timescale = 1;

  constructor(private readonly init: Uint8Array<ArrayBuffer>) {
    this.begin();
    this.description = descriptionOf(this.file);
  }

  private begin(): void {
    const file = createFile();
    this.file = file;
    this.offset = 0;
    file.onReady = (info) => {
      const track = info.tracks[0];
      if (!track) throw new Error("the init segment has no track");
      this.timescale = track.timescale;
      file.setExtractionOptions(track.id, undefined, { nbSamples: 1 });
      file.start();
    };
    file.onSamples = (_id, _user, samples) => this.samples.push(...samples);
    this.append(this.init);
  }

  private append(b: Uint8Array<ArrayBuffer>): void {
    checkSamples(b);
    const buffer = b.slice().buffer;
    this.file.appendBuffer(MP4BoxBuffer.fromArrayBuffer(buffer, this.offset));
    this.offset += b.byteLength;
  }

  frames(o: MediaObject): Frame[] {
    if (o.group !== this.group) {
      this.group = o.group;
      this.begin();
    }
    this.samples = [];
    this.append(o.payload);
    const micro = 1e6 / this.timescale;
    return this.samples.map((s) => checked({
      time: Math.round(s.cts * micro),
      duration: Math.round(s.duration * micro),
      key: s.is_sync,
      data: new Uint8Array(s.data!),
    }));
  }
}

/** The largest number of samples of an object, as in player/cmaf. */
const maxSamples = 1 << 16;

/**
 * checkSamples refuses an object that claims too many samples: 30 bytes can claim four billion, and the library makes
 * one after the other. Boxes must be whole, since the library puts those together that are not.
 */
function checkSamples(payload: Uint8Array): void {
  let samples = 0;
  for (const moof of boxes(payload)) {
    if (moof.type !== "moof") continue;
    for (const traf of boxes(moof.body)) {
      if (traf.type !== "traf") continue;
      for (const { type, body } of boxes(traf.body)) if (type === "trun") samples += sampleCount(body);
    }
  }
  if (samples > maxSamples) throw new Error(`an object has ${samples} samples; at most ${maxSamples} are allowed`);
}

function sampleCount(trun: Uint8Array): number {
  if (trun.length < 8) throw new Error("a trun box is too short");
  return new DataView(trun.buffer, trun.byteOffset).getUint32(4);
}

/** boxes walks the boxes that fill b (ISO/IEC 14496-12 §4.2). */
function* boxes(b: Uint8Array): Generator<{ type: string; body: Uint8Array }> {
  for (let at = 0; at < b.length; ) {
    const view = new DataView(b.buffer, b.byteOffset + at, b.length - at);
    if (view.byteLength < 8) throw new Error("an object ends within a box");
    let size = view.getUint32(0);
    let header = 8;
    if (size === 0) size = view.byteLength; // to the end
    else if (size === 1 && view.byteLength >= 16) [size, header] = [Number(view.getBigUint64(8)), 16];
    if (size < header || size > view.byteLength) throw new Error("an object ends within a box");
    yield { type: String.fromCharCode(...b.subarray(at + 4, at + 8)), body: b.subarray(at + header, at + size) };
    at += size;
  }
}

interface Entry {
  [box: string]: unknown;
}

/** descriptionOf returns the content of the box with the decoder's configuration. */
function descriptionOf(file: ISOFile): Uint8Array<ArrayBuffer> | undefined {
  const trak = (file as unknown as { moov: { traks: { mdia: { minf: { stbl: { stsd: { entries: Entry[] } } } } }[] } })
    .moov.traks[0];
  const entry = trak?.mdia.minf.stbl.stsd.entries[0];
  if (!entry) return undefined;
  for (const name of ["avcC", "hvcC", "vpcC", "av1C"]) {
    const box = entry[name] as { write(s: DataStream): void } | undefined;
    if (!box) continue;
    const out = new DataStream(undefined, 0, Endianness.BIG_ENDIAN);
    box.write(out);
    return new Uint8Array(out.buffer.slice(8, out.getPosition()));
  }
  const esds = entry["esds"] as { esd?: { descs?: { descs?: { data?: Uint8Array }[] }[] } } | undefined;
  const config = esds?.esd?.descs?.[0]?.descs?.[0]?.data;
  return config && new Uint8Array(config);
}

// Properties of LOC (draft-ietf-moq-loc): the time has another number before draft 20 of MoQT than since.
const timestamps = [0x10, 0x06];
const timescales = [0x08];
/** A list of properties inside the list, which relays do not change (draft-ietf-moq-transport-18 §12.7). */
const immutable = 0x0b;

/** LocDemuxer takes frames as they are. */
class LocDemuxer implements Demuxer {
  readonly description: Uint8Array<ArrayBuffer> | undefined;
  private count = 0;

  constructor(private readonly track: Track) {
    this.description = track.description;
  }

  frames(o: MediaObject): Frame[] {
    const inside = o.properties?.get(immutable);
    const lists = [o.properties, inside instanceof Uint8Array ? readProperties(inside) : undefined];
    const number = (types: number[]) =>
      lists.flatMap((list) => types.map((t) => list?.get(t))).find((v): v is number => typeof v === "number");
    const duration = Math.round(1e6 / (this.track.framerate ?? (this.track.role === "audio" ? 50 : 30)));
    const at = number(timestamps);
    const scale = number(timescales) ?? this.track.timescale ?? 1e6;
    const time = at === undefined ? this.count * duration : (at * 1e6) / scale;
    this.count++;
    const key = this.track.role === "audio" || (o.object === 0 && o.subgroup === 0);
    return [checked({ time: Math.round(time), duration, key, data: o.payload })];
  }
}

/** HangDemuxer takes the containers of hang apart, whose integers are those of QUIC (RFC 9000 §16). */
class HangDemuxer implements Demuxer {
  private readonly frame: LocDemuxer;

  constructor(private readonly track: Track) {
    this.frame = new LocDemuxer({ ...track, timescale: 1e6 });
  }

  get description(): Uint8Array<ArrayBuffer> | undefined {
    return this.frame.description;
  }

  frames(o: MediaObject): Frame[] {
    const r = new QuicReader(o.payload);
    const properties: Properties = new Map();
    if (this.track.packaging === "hang-legacy") {
      properties.set(timestamps[0]!, r.int());
    } else {
      const end = r.int() + r.at;
      for (let type = 0; r.at < end; ) {
        type += r.int();
        const value = r.int();
        properties.set(type, type % 2 === 0 ? value : r.take(value));
      }
    }
    return this.frame.frames({ ...o, properties, payload: r.rest() });
  }
}

/** QuicReader reads integers as QUIC has them: the first two bits tell how long they are. */
class QuicReader {
  at = 0;

  constructor(private readonly b: Uint8Array<ArrayBuffer>) {}

  int(): number {
    const first = this.take(1)[0]!;
    return this.take((1 << (first >> 6)) - 1).reduce((n, x) => n * 256 + x, first & 0x3f);
  }

  take(n: number): Uint8Array<ArrayBuffer> {
    if (this.at + n > this.b.length) throw new Error("an object ends within a field");
    return this.b.subarray(this.at, (this.at += n));
  }

  rest(): Uint8Array<ArrayBuffer> {
    return this.b.subarray(this.at);
  }
}
