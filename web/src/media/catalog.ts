// Catalogs say which tracks a broadcast has: MSF (draft-ietf-moq-msf), the common format
// (draft-ietf-moq-catalogformat-01), and hang's, as docs/broadcasts.md describes them.

/** Track is one track of a broadcast. */
export interface Track {
  name: string;
  role: "video" | "audio";
  packaging: "cmaf" | "loc" | "hang-legacy" | "hang-loc"; // the last two are hang's containers "legacy" and "loc"
  codec: string;
  init?: Uint8Array<ArrayBuffer>; // the init segment, of CMAF
  initTrack?: string; // or the track whose first object has it
  description?: Uint8Array<ArrayBuffer>; // what decoders want to know, of all other packagings
  width?: number;
  height?: number;
  framerate?: number;
  bitrate?: number;
  sampleRate?: number;
  channels?: number;
  timescale?: number; // ticks per second
  altGroup?: number; // tracks of one group replace each other
  layers?: string; // the track with the same objects that has a subgroup for each layer
}

/** The tracks that may have a catalog, in the order in which they are tried. */
export const catalogNames = ["catalog", ".catalog", "catalog.json"];

type Json = Record<string, unknown>;

/** parseCatalog reads a catalog of any format. Tracks that cannot be played are left out. */
export function parseCatalog(text: string): Track[] {
  const catalog = JSON.parse(text) as Json | null;
  if (isObject(catalog) && (isObject(catalog["video"]) || isObject(catalog["audio"]))) {
    return [...hangTracks(catalog, "video"), ...hangTracks(catalog, "audio")];
  }
  if (!isObject(catalog) || !Array.isArray(catalog["tracks"])) throw new Error("the catalog has no tracks");
  const common = (catalog["commonTrackFields"] ?? {}) as Json;
  const inline = new Map<unknown, unknown>();
  for (const init of (catalog["initDataList"] as Json[] | undefined) ?? []) {
    if (init["type"] === "inline") inline.set(init["id"], init["data"]);
  }
  const tracks: Track[] = [];
  for (const t of catalog["tracks"] as Json[]) {
    const track = parseTrack({ ...common, ...((t["selectionParams"] ?? {}) as Json), ...t }, inline);
    if (track) tracks.push(track);
  }
  return tracks;
}

function parseTrack(t: Json, inline: Map<unknown, unknown>): Track | undefined {
  const name = string(t["name"]);
  const codec = string(t["codec"]);
  const packaging = string(t["packaging"]) ?? "cmaf";
  if (!name || !codec || (packaging !== "cmaf" && packaging !== "loc")) return undefined;
  const role = string(t["role"]) ?? roleOf(t, codec);
  if (role !== "video" && role !== "audio") return undefined;
  const data = string(t["initData"]) ?? string(inline.get(t["initRef"]));
  const bytes = data ? fromBase64(data) : undefined;
  const track: Track = { name, codec, packaging, role };
  if (bytes && packaging === "cmaf") track.init = bytes;
  if (bytes && packaging === "loc") track.description = bytes;
  const initTrack = string(t["initTrack"]);
  if (initTrack) track.initTrack = initTrack;
  const layers = string(t["x-layers"]);
  if (layers) track.layers = layers;
  for (const key of ["width", "height", "framerate", "bitrate", "timescale", "altGroup"] as const) {
    const value = t[key];
    if (typeof value === "number") track[key] = value;
  }
  if (typeof t["samplerate"] === "number") track.sampleRate = t["samplerate"];
  const channels = Number.parseInt(string(t["channelConfig"]) ?? "", 10);
  if (channels > 0) track.channels = channels;
  return track;
}

/** The packagings of hang's containers. Tracks of other kinds are left out, as hang wants. */
const hangPackaging: Record<string, Track["packaging"]> = { cmaf: "cmaf", legacy: "hang-legacy", loc: "hang-loc" };

/** hangTracks returns the tracks of a section of a catalog of hang. They replace each other. */
function hangTracks(catalog: Json, role: Track["role"]): Track[] {
  const section = catalog[role];
  const renditions = isObject(section) ? section["renditions"] : undefined;
  if (!isObject(renditions)) return [];
  return Object.entries(renditions).flatMap(([name, t]) => {
    const track = isObject(t) ? hangTrack(name, role, t) : undefined;
    return track ? [track] : [];
  });
}

function hangTrack(name: string, role: Track["role"], t: Json): Track | undefined {
  const container = isObject(t["container"]) ? t["container"] : {};
  const packaging = hangPackaging[string(container["kind"]) ?? "legacy"];
  const codec = string(t["codec"]);
  if (!packaging || !codec || t["broadcast"]) return undefined; // another broadcast has it
  const track: Track = { name, codec, packaging, role, altGroup: role === "video" ? 1 : 2 };
  const init = string(container["init"]);
  if (init) track.init = fromBase64(init);
  const description = string(t["description"]);
  if (description) track.description = fromHex(description);
  const numbers = {
    width: "codedWidth", height: "codedHeight", framerate: "framerate", bitrate: "bitrate", sampleRate: "sampleRate",
    channels: "numberOfChannels",
  } as const;
  for (const [key, theirs] of Object.entries(numbers) as [keyof typeof numbers, string][]) {
    const value = t[theirs];
    if (typeof value === "number") track[key] = value;
  }
  return track;
}

function isObject(v: unknown): v is Json {
  return typeof v === "object" && v !== null && !Array.isArray(v);
}

function roleOf(t: Json, codec: string): string | undefined {
  if (t["width"] || /^(avc|hvc|hev|av01|vp0)/.test(codec)) return "video";
  if (t["samplerate"] || /^(mp4a|opus|ac-3|ec-3|flac)/i.test(codec)) return "audio";
  return undefined;
}

function string(v: unknown): string | undefined {
  return typeof v === "string" && v !== "" ? v : undefined;
}

/** msfCatalog writes a catalog of MSF, with init segments where draft 01 and draft 00 have them. */
export function msfCatalog(tracks: Track[]): string {
  return JSON.stringify({
    version: "draft-01",
    tracks: tracks.map((t) => ({
      name: t.name,
      packaging: t.packaging,
      isLive: true,
      role: t.role,
      renderGroup: 1,
      altGroup: t.altGroup,
      ...(t.init && { initRef: `init-${t.name}`, initData: toBase64(t.init) }),
      codec: t.codec,
      framerate: t.framerate,
      bitrate: t.bitrate,
      width: t.width,
      height: t.height,
      samplerate: t.sampleRate,
      channelConfig: t.channels?.toString(),
    })),
    initDataList: tracks.flatMap((t) =>
      t.init ? [{ id: `init-${t.name}`, type: "inline", data: toBase64(t.init) }] : [],
    ),
  });
}

function fromBase64(s: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(s), (c) => c.charCodeAt(0));
}

function fromHex(s: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(s.match(/../g) ?? [], (byte) => parseInt(byte, 16));
}

export function toBase64(b: Uint8Array): string {
  let s = "";
  for (const x of b) s += String.fromCharCode(x);
  return btoa(s);
}
