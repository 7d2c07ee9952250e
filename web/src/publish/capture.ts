import { sleep } from "../ui/dom.js";
import type { Track } from "../media/catalog.js";
import type { Broadcast } from "./broadcast.js";
import { framesOf } from "./frames.js";
import { chunk, initSegment, type MuxTrack } from "./mux.js";
import type { PublishedTrack } from "./track.js";

/** Codecs that a browser may encode, the most compatible first. */
export const videoCodecs = [
  { name: "H.264", codec: "avc1.42e028" },
  { name: "VP9", codec: "vp09.00.40.08" },
  { name: "AV1", codec: "av01.0.08M.08" },
];

export interface Settings {
  codec: string;
  bitrate: number; // of the best rendition, bits per second
  audioBitrate: number;
  second: boolean; // publish another rendition of half the size
  group: number; // ms
  priorities: { audio: number; key: number; delta: number };
}

/** How long an encoder may take for its first picture, in milliseconds. */
const trialTime = 1000;

/** The IDs of tracks in MP4: a player may put them into one file. */
const ids = { video: 1, audio: 2, small: 3 };

/** supportedCodecs returns the codecs that this browser encodes, and first those whose pictures come at once. */
export async function supportedCodecs(): Promise<typeof videoCodecs> {
  if (typeof VideoEncoder === "undefined") return [];
  const trials = await Promise.all(videoCodecs.map(async ({ codec }) => {
    const config = { codec, width: 640, height: 360, bitrate: 1e6, framerate: 30, latencyMode: "realtime" } as const;
    const { supported } = await VideoEncoder.isConfigSupported(config);
    return { supported, quick: supported && (await isQuick(config)) };
  }));
  const supported = videoCodecs.filter((_, i) => trials[i]!.supported);
  const quick = videoCodecs.filter((_, i) => trials[i]!.quick);
  return [...quick, ...supported.filter((c) => !quick.includes(c))];
}

/** isQuick reports whether an encoder gives a picture after it has got a few. That of Firefox holds back 40 of H.264. */
async function isQuick(config: VideoEncoderConfig): Promise<boolean> {
  const { width, height } = config;
  let encoder: VideoEncoder | undefined;
  const given = new Promise<boolean>((resolve) => {
    encoder = new VideoEncoder({ output: () => resolve(true), error: () => resolve(false) });
    encoder.configure(config);
    for (let n = 0; n < 5; n++) {
      const init = { format: "I420", codedWidth: width, codedHeight: height, timestamp: n * 33_333 } as const;
      const picture = new VideoFrame(new Uint8Array((width * height * 3) / 2), init);
      encoder.encode(picture);
      picture.close();
    }
  });
  const quick = await Promise.race([given, sleep(trialTime).then(() => false)]);
  if (encoder?.state !== "closed") encoder?.close();
  return quick;
}

/** Groups numbers the groups of all tracks: those with the same id cover the same time. */
class Groups {
  // Ids go on after those of an earlier broadcast with the same name, since they grow no faster than this.
  id = Date.now();
  private began = -Infinity;

  constructor(private readonly length: number) {}

  /** startsAt begins a group if it is time. It is asked for each frame of the leading track. */
  startsAt(micros: number): boolean {
    if (micros - this.began < this.length * 1000) return false;
    if (this.began !== -Infinity) this.id++;
    this.began = micros;
    return true;
  }
}

/** Capture encodes the tracks of a MediaStream, and publishes them. */
export class Capture {
  private readonly entries = new Map<string, Track>();
  private readonly groups: Groups;
  private readonly expected: number;
  private readonly stops: (() => void)[] = [];
  private stopped = false;

  constructor(
    private readonly stream: MediaStream,
    private readonly broadcast: Broadcast,
    private readonly settings: Settings,
    private readonly failed: (error: Error) => void,
  ) {
    this.groups = new Groups(settings.group);
    const videos = stream.getVideoTracks().length > 0 ? (settings.second ? 2 : 1) : 0;
    this.expected = videos + (stream.getAudioTracks().length > 0 ? 1 : 0);
  }

  start(): void {
    const [video] = this.stream.getVideoTracks();
    const [audio] = this.stream.getAudioTracks();
    if (video) void this.video(video).catch(this.failed);
    if (audio) void this.audio(audio, video === undefined).catch(this.failed);
  }

  stop(): void {
    this.stopped = true;
    for (const stop of this.stops) stop();
    for (const t of this.stream.getTracks()) t.stop();
  }

  private async video(track: MediaStreamTrack): Promise<void> {
    let renditions: Rendition[] | undefined;
    const clock = new TimeOfDay();
    for await (const frame of this.frames<VideoFrame>(track)) {
      const time = clock.of(frame.timestamp);
      if (time !== undefined) {
        renditions ??= this.renditions(frame, track.getSettings().frameRate ?? 30);
        const key = this.groups.startsAt(time);
        for (const r of renditions) r.encode(frame, time, key, this.groups.id);
      }
      frame.close();
    }
  }

  private renditions(first: VideoFrame, framerate: number): Rendition[] {
    const { settings } = this;
    const made = (name: string, id: number, part: number, bitrate: number) => {
      const even = (n: number) => Math.max(2, Math.round((n * part) / 2) * 2);
      const r = new Rendition({
        id,
        track: this.broadcast.track(name),
        config: {
          codec: settings.codec,
          width: even(first.displayWidth),
          height: even(first.displayHeight),
          bitrate,
          framerate: Math.round(framerate),
          latencyMode: "realtime",
          ...(settings.codec.startsWith("avc1") && { avc: { format: "avc" as const } }),
        },
        priorities: settings.priorities,
        describe: (entry) => this.describe({ ...entry, ...(settings.second && { altGroup: 1 }) }),
        failed: this.failed,
      });
      this.stops.push(() => r.close());
      return r;
    };
    const all = [made("video", ids.video, 1, settings.bitrate)];
    if (settings.second) all.push(made("video-small", ids.small, 0.5, Math.round(settings.bitrate / 4)));
    return all;
  }

  private async audio(track: MediaStreamTrack, leads: boolean): Promise<void> {
    const published = this.broadcast.track("audio");
    let sequence = 0;
    const config = { codec: "opus", sampleRate: 48_000, numberOfChannels: 2, bitrate: this.settings.audioBitrate };
    const encoder = new AudioEncoder({
      output: (packet) => {
        const data = new Uint8Array(packet.byteLength);
        packet.copyTo(data);
        if (leads) this.groups.startsAt(packet.timestamp);
        const duration = packet.duration ?? 20_000;
        const bytes = chunk(ids.audio, ++sequence, { time: packet.timestamp, duration, key: true, data });
        published.add(this.groups.id, 0, this.settings.priorities.audio, bytes);
      },
      error: this.failed,
    });
    this.stops.push(() => encoder.state !== "closed" && encoder.close());
    const clock = new TimeOfDay();
    for await (const sound of this.frames<AudioData>(track)) {
      const time = clock.of(sound.timestamp);
      if (time === undefined) {
        sound.close();
        continue;
      }
      if (encoder.state === "unconfigured") {
        config.numberOfChannels = sound.numberOfChannels;
        config.sampleRate = sound.sampleRate;
        encoder.configure(config);
        const { sampleRate, numberOfChannels: channels } = config;
        const mux: MuxTrack = { id: ids.audio, kind: "audio", sampleRate, channels };
        this.describe({
          name: "audio",
          role: "audio",
          packaging: "cmaf",
          codec: "opus",
          init: initSegment(mux),
          sampleRate,
          channels,
          bitrate: config.bitrate,
        });
      }
      if (encoder.state === "configured") {
        const timed = retimed(sound, time);
        encoder.encode(timed);
        timed.close();
      }
      sound.close();
    }
  }

  /** describe adds a track to the catalog, which is published when it is complete. */
  private describe(entry: Track): void {
    this.entries.set(entry.name, entry);
    if (this.entries.size === this.expected) this.broadcast.describe([...this.entries.values()]);
  }

  /** frames returns what a track brings. */
  private async *frames<T extends VideoFrame | AudioData>(track: MediaStreamTrack): AsyncGenerator<T> {
    const reader = (await framesOf<T>(track)).getReader();
    const end = () => void reader.cancel().catch(() => {});
    this.stops.push(end);
    if (this.stopped) end();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      yield value;
    }
  }
}

/** How many frames a TimeOfDay looks at. */
const settling = 10;

/**
 * TimeOfDay tells when the frames of a track were taken, in microseconds since 1970, so that sound and picture fit
 * together, and a viewer whose clock is right can tell how old a picture is. A device's own times begin anywhere. Of the
 * first frames, which are not published, the one that came fastest tells where.
 */
class TimeOfDay {
  private seen = 0;
  private base = Infinity;

  /** of returns the time of a frame, or undefined if it is too early to tell. */
  of(timestamp: number): number | undefined {
    if (this.seen < settling) {
      this.seen++;
      const now = Math.round((performance.timeOrigin + performance.now()) * 1000);
      this.base = Math.min(this.base, now - timestamp);
      return undefined;
    }
    return this.base + timestamp;
  }
}

function retimed(sound: AudioData, timestamp: number): AudioData {
  const { numberOfChannels, numberOfFrames, sampleRate } = sound;
  const data = new Float32Array(numberOfChannels * numberOfFrames);
  for (let i = 0; i < numberOfChannels; i++) {
    const plane = data.subarray(i * numberOfFrames, (i + 1) * numberOfFrames);
    sound.copyTo(plane, { planeIndex: i, format: "f32-planar" });
  }
  return new AudioData({ format: "f32-planar", numberOfChannels, numberOfFrames, sampleRate, timestamp, data });
}

interface RenditionOptions {
  id: number; // in MP4
  track: PublishedTrack;
  config: VideoEncoderConfig;
  priorities: Settings["priorities"];
  describe: (entry: Track) => void;
  failed: (error: Error) => void;
}

/** Rendition encodes video at one size. */
class Rendition {
  private readonly encoder: VideoEncoder;
  private readonly groups: { time: number; id: number }[] = []; // of the key frames that are being encoded
  private group = -1;
  private sequence = 0;
  private described = false;

  constructor(private readonly options: RenditionOptions) {
    this.encoder = new VideoEncoder({
      output: (picture, metadata) => this.publish(picture, metadata),
      error: options.failed,
    });
    this.encoder.configure(options.config);
  }

  encode(frame: VideoFrame, time: number, key: boolean, group: number): void {
    if (this.encoder.state !== "configured") return;
    if (!key && this.encoder.encodeQueueSize > 4) return; // the encoder is too slow: leave frames out
    if (key) this.groups.push({ time, id: group });
    const timed = new VideoFrame(frame, { timestamp: time });
    this.encoder.encode(timed, { keyFrame: key });
    timed.close();
  }

  private publish(picture: EncodedVideoChunk, metadata: EncodedVideoChunkMetadata | undefined): void {
    const { config, id, priorities, track } = this.options;
    if (!this.described && metadata?.decoderConfig) this.describe(metadata.decoderConfig);
    const data = new Uint8Array(picture.byteLength);
    picture.copyTo(data);
    const begins = this.groups[0]?.time === picture.timestamp && picture.type === "key";
    if (begins) this.group = this.groups.shift()!.id;
    if (this.group < 0) return;
    const duration = Math.round(1e6 / (config.framerate ?? 30));
    const sample = { time: picture.timestamp, duration, key: picture.type === "key", data };
    const split = priorities.key !== priorities.delta;
    const priority = begins ? priorities.key : priorities.delta;
    track.add(this.group, split && !begins ? 1 : 0, priority, chunk(id, ++this.sequence, sample));
  }

  private describe(decoder: VideoDecoderConfig): void {
    this.described = true;
    const { config, track } = this.options;
    const description = decoder.description && bytesOf(decoder.description);
    const mux: MuxTrack = {
      id: this.options.id,
      kind: "video",
      codec: decoder.codec,
      width: config.width,
      height: config.height,
      ...(description && { description }),
    };
    this.options.describe({
      name: track.name,
      role: "video",
      packaging: "cmaf",
      codec: decoder.codec,
      init: initSegment(mux),
      width: config.width,
      height: config.height,
      framerate: config.framerate ?? 30,
      bitrate: config.bitrate ?? 0,
    });
  }

  close(): void {
    if (this.encoder.state !== "closed") this.encoder.close();
  }
}

function bytesOf(b: AllowSharedBufferSource): Uint8Array {
  return ArrayBuffer.isView(b) ? new Uint8Array(b.buffer, b.byteOffset, b.byteLength) : new Uint8Array(b);
}
