// Fragmented MP4 (ISO/IEC 14496-12, CMAF), one frame a chunk. Times are in microseconds.

/** MuxTrack describes the track of an init segment. */
export type MuxTrack = { id: number } & (
  | { kind: "video"; codec: string; width: number; height: number; description?: Uint8Array }
  | { kind: "audio"; sampleRate: number; channels: number }
);

export const timescale = 1_000_000;

type Part = number[] | Uint8Array;

const ascii = (s: string) => [...s].map((c) => c.charCodeAt(0));
const u16 = (n: number) => [(n >> 8) & 255, n & 255];
const u32 = (n: number) => [(n >>> 24) & 255, (n >>> 16) & 255, (n >>> 8) & 255, n & 255];
const u64 = (n: number) => [...u32(Math.floor(n / 2 ** 32)), ...u32(n % 2 ** 32)];
const zeros = (n: number) => new Array<number>(n).fill(0);
const matrix = [...u32(0x10000), ...zeros(12), ...u32(0x10000), ...zeros(12), ...u32(0x40000000)];

function box(type: string, ...parts: Part[]): Uint8Array<ArrayBuffer> {
  const size = 8 + parts.reduce((n, p) => n + p.length, 0);
  const out = new Uint8Array(size);
  out.set([...u32(size), ...ascii(type)]);
  let at = 8;
  for (const p of parts) {
    out.set(p, at);
    at += p.length;
  }
  return out;
}

function full(type: string, version: number, flags: number, ...parts: Part[]): Uint8Array<ArrayBuffer> {
  return box(type, [version, ...u32(flags).slice(1)], ...parts);
}

/** initSegment returns the init segment of a track. */
export function initSegment(t: MuxTrack): Uint8Array<ArrayBuffer> {
  const video = t.kind === "video";
  const [width, height] = video ? [t.width, t.height] : [0, 0];
  const mvhd = full("mvhd", 0, 0, zeros(8), u32(timescale), u32(0), u32(0x10000), u16(video ? 0 : 0x100), zeros(10),
    matrix, zeros(24), u32(t.id + 1));
  const tkhd = full("tkhd", 0, 3, zeros(8), u32(t.id), zeros(4), u32(0), zeros(8), u16(0), u16(0), u16(video ? 0 : 0x100),
    zeros(2), matrix, u32(width << 16), u32(height << 16));
  const mdhd = full("mdhd", 0, 0, zeros(8), u32(timescale), u32(0), u16(0x55c4), u16(0)); // language: und
  const hdlr = full("hdlr", 0, 0, zeros(4), ascii(video ? "vide" : "soun"), zeros(12), [0]);
  const header = video ? full("vmhd", 0, 1, zeros(8)) : full("smhd", 0, 0, zeros(4));
  const dinf = box("dinf", full("dref", 0, 0, u32(1), full("url ", 0, 1)));
  const stbl = box("stbl", full("stsd", 0, 0, u32(1), video ? videoEntry(t) : audioEntry(t)),
    full("stts", 0, 0, u32(0)), full("stsc", 0, 0, u32(0)), full("stsz", 0, 0, u32(0), u32(0)),
    full("stco", 0, 0, u32(0)));
  const trak = box("trak", tkhd, box("mdia", mdhd, hdlr, box("minf", header, dinf, stbl)));
  const mvex = box("mvex", full("trex", 0, 0, u32(t.id), u32(1), u32(0), u32(0), u32(0)));
  const ftyp = box("ftyp", ascii("iso6"), u32(1), ascii("iso6"), ascii("cmfc"));
  return joined(ftyp, box("moov", mvhd, trak, mvex));
}

function videoEntry(t: MuxTrack & { kind: "video" }): Uint8Array {
  const [type, config] = videoConfig(t);
  return box(type, zeros(6), u16(1), zeros(16), u16(t.width), u16(t.height), u32(0x480000), u32(0x480000), zeros(4),
    u16(1), zeros(32), u16(24), u16(0xffff), config);
}

/** videoConfig returns the type of a sample entry and its box for decoders. */
function videoConfig(t: MuxTrack & { kind: "video" }): [string, Uint8Array] {
  const fields = t.codec.split(".");
  const field = (i: number) => parseInt(fields[i] ?? "0", 10);
  switch (fields[0]) {
    case "avc1":
      if (!t.description) throw new Error("the encoder has given no parameter sets");
      return ["avc1", box("avcC", t.description)];
    case "vp09": // VP9 codec ISO media file format binding: 4:2:0, BT.709
      return ["vp09", full("vpcC", 1, 0, [field(1), field(2), (field(3) << 4) | (1 << 1), 1, 1, 1, 0, 0])];
    case "av01": // AV1 codec ISO media file format binding §2.3.3: 4:2:0
      return ["av01", box("av1C", [0x81, (field(1) << 5) | parseInt(fields[2] ?? "0", 10), 0x0c, 0])];
  }
  throw new Error(`${t.codec} cannot be put into MP4 here`);
}

function audioEntry(t: MuxTrack & { kind: "audio" }): Uint8Array {
  const preSkip = 312; // of libopus, in samples
  const dOps = box("dOps", [0, t.channels], u16(preSkip), u32(t.sampleRate), u16(0), [0]);
  return box("Opus", zeros(6), u16(1), zeros(8), u16(t.channels), u16(16), zeros(4),
    u16(t.sampleRate), zeros(2), dOps);
}

/** Sample is a frame to be put into a chunk. */
export interface Sample {
  time: number;
  duration: number;
  key: boolean;
  data: Uint8Array;
}

/** chunk returns a chunk of a track with one sample. */
export function chunk(id: number, sequence: number, s: Sample): Uint8Array<ArrayBuffer> {
  const flags = s.key ? 0x02000000 : 0x01010000; // depends on no other sample; does, and is no sync sample
  const moof = (offset: number) =>
    box("moof", full("mfhd", 0, 0, u32(sequence)), box("traf",
      full("tfhd", 0, 0x020000, u32(id)), // offsets begin at the moof
      full("tfdt", 1, 0, u64(s.time)),
      full("trun", 0, 0x000701, u32(1), u32(offset), u32(s.duration), u32(s.data.length), u32(flags))));
  const size = moof(0).length;
  return joined(moof(size + 8), box("mdat", s.data));
}

function joined(...parts: Uint8Array[]): Uint8Array<ArrayBuffer> {
  const out = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
  let at = 0;
  for (const p of parts) {
    out.set(p, at);
    at += p.length;
  }
  return out;
}
