import { RequestError, type MediaObject, type Session, type Subscription } from "../moqt/session.js";
import { type Filter, nextGroup } from "../moqt/filter.js";
import type { Namespace } from "../moqt/wire.js";
import { messageOf, pauses, sleep } from "../ui/dom.js";
import { Audio } from "./audio.js";
import { catalogNames, parseCatalog, type Track } from "./catalog.js";
import { Clock } from "./clock.js";
import { type Frame, newDemuxer } from "./demux.js";
import { ElementOutput } from "./element.js";
import { Sequencer } from "./sequencer.js";
import { Screen, VideoDecoding } from "./video.js";

/** How long the relay waits for a publisher, and how long the page waits for a catalog, in milliseconds. */
const patience = 10_000;
const adjustInterval = 200;

/** Statistics say how playback goes. */
export interface Statistics {
  latency: number; // ms behind the fastest arrivals
  target: number; // ms
  endToEnd: number | undefined; // ms since the picture was taken, if the publisher's times are the time of day
  shown: number; // pictures
  dropped: number;
  lost: number; // groups that were left before their end
  bitrate: number; // bits per second that were received
  speed: number;
}

export interface PlayerOptions {
  connect: () => Promise<Session>;
  namespace: Namespace;
  canvas: HTMLCanvasElement;
  video: HTMLVideoElement; // is used where the browser has no WebCodecs
  target: number; // ms
  /** tell says in words what the player does; "" is: it plays. */
  tell: (state: string) => void;
  /** found is called with the tracks of the broadcast. */
  found: (tracks: Track[], video: Track | undefined) => void;
}

/** Lane is one track that is played. */
interface Lane {
  track: Track;
  subscription: Subscription;
  sequencer: Sequencer;
  close(): void;
}

/** Player plays a broadcast, on one session after another. */
export class Player {
  private readonly clock: Clock;
  private readonly screen: Screen;
  private readonly context = new AudioContext({ latencyHint: "interactive" });
  private readonly gain = this.context.createGain();
  private readonly element: ElementOutput | undefined; // instead of clock, screen and context
  private session: Session | undefined;
  private tracks: Track[] = [];
  private lanes: { video?: Lane; audio?: Lane; next?: Lane } = {};
  private decoding: { video?: VideoDecoding; audio?: Audio } = {};
  private wanted: string | undefined; // the name of the rendition
  private overtaken = false; // the first media of the next rendition came before the answer to its request
  private stopped = false;
  private received = 0;
  private rate = { at: 0, received: 0, bits: 0 };
  private skipped = 0;
  private lost = 0;

  constructor(private readonly options: PlayerOptions) {
    this.clock = new Clock(options.target);
    this.screen = new Screen(options.canvas);
    this.gain.connect(this.context.destination);
    if (!hasWebCodecs()) this.element = new ElementOutput(options.video, options.target);
  }

  set target(ms: number) {
    this.clock.target = ms;
    if (this.element) this.element.target = ms;
  }

  /** volume is 0 to 1. Browsers let a page make sound only after the user has done something: unmute is called then. */
  set volume(v: number) {
    this.gain.gain.value = v;
    this.options.video.volume = v;
    this.options.video.muted = v === 0;
  }

  async unmute(): Promise<boolean> {
    if (this.element) return true;
    await Promise.race([this.context.resume(), sleep(300)]);
    return this.context.state === "running";
  }

  /** run plays until stop is called. */
  async run(): Promise<void> {
    const stopDrawing = this.draw();
    for (let wait = pauses(); !this.stopped; ) {
      try {
        const session = await this.options.connect();
        this.session = session; // reset closes it
        session.ongoaway = () => session.close(); // a new session goes on
        await this.begin(session);
        wait = pauses();
        if (!this.stopped) this.options.tell("");
        await Promise.race([session.closed, ...this.ends()]);
      } catch (error) {
        if (!this.stopped) this.options.tell(explain(error));
      }
      this.reset();
      if (!this.stopped) await sleep(wait.next().value);
    }
    stopDrawing();
  }

  stop(): void {
    this.stopped = true;
    this.session?.close();
    void this.context.close();
  }

  private ends(): Promise<string>[] {
    return [this.lanes.video, this.lanes.audio].flatMap((l) => (l ? [l.subscription.done] : []));
  }

  /** reset drops what belongs to a session. The last picture stays. */
  private reset(): void {
    for (const lane of Object.values(this.lanes)) lane?.close();
    this.lanes = {};
    this.overtaken = false;
    this.decoding.video?.close();
    this.decoding.audio?.close();
    this.decoding = {};
    this.element?.reset();
    this.screen.forget();
    this.clock.reset();
    this.session?.close();
    this.session = undefined;
  }

  private async begin(session: Session): Promise<void> {
    if (this.stopped) return session.close();
    this.options.tell("Loading…");
    this.tracks = (await this.load(session)).filter((t) => !this.element || ElementOutput.plays(t));
    const renditions = await playable(this.tracks.filter((t) => t.role === "video"));
    const audio = this.tracks.find((t) => t.role === "audio");
    if (this.stopped) return;
    if (renditions.length === 0 && !audio) throw new Error("this browser can play none of the tracks");
    const video = renditions.find((t) => t.name === this.wanted) ?? renditions[0];
    this.options.found(renditions, video);
    await Promise.all([
      video && this.play(session, video, "next object").then((lane) => this.keep(session, "video", lane)),
      audio && this.play(session, audio, "next object").then((lane) => this.keep(session, "audio", lane)),
    ]);
  }

  /** keep puts a lane in its place, unless its session is over: the next one makes its own lanes. */
  private keep(session: Session, place: "video" | "audio" | "next", lane: Lane): void {
    if (this.session === session) this.lanes[place] = lane;
    else lane.close();
  }

  /** load reads the catalog and the init segments. */
  private async load(session: Session): Promise<Track[]> {
    let refused: unknown;
    for (const name of catalogNames) {
      try {
        const tracks = parseCatalog(new TextDecoder().decode(await this.first(session, name)));
        const inits = new Map<string, Promise<Uint8Array<ArrayBuffer>>>();
        for (const t of tracks) {
          if (t.init || !t.initTrack) continue;
          const init = inits.get(t.initTrack) ?? this.first(session, t.initTrack);
          inits.set(t.initTrack, init);
          t.init = await init;
        }
        return tracks;
      } catch (error) {
        if (!(error instanceof RequestError)) throw error;
        refused = error;
      }
    }
    throw refused;
  }

  /** first returns the first object of a track's current group: a catalog or an init segment. */
  private async first(session: Session, name: string): Promise<Uint8Array<ArrayBuffer>> {
    let arrive!: (b: Uint8Array<ArrayBuffer>) => void;
    const arrived = new Promise<Uint8Array<ArrayBuffer>>((resolve) => (arrive = resolve));
    const take = (o: MediaObject) => o.object === 0 && o.status === 0 && arrive(o.payload);
    const track = { namespace: this.options.namespace, name };
    const s = await session.subscribe(track, { filter: "next object", rendezvous: patience }, take);
    if (s.largest) void session.fetchBefore(s, take).catch(() => {}); // the publisher sends it again as well
    try {
      return await Promise.race([
        arrived,
        sleep(patience).then(() => Promise.reject(new Error(`the track ${name} has no content`))),
      ]);
    } finally {
      s.cancel();
    }
  }

  /** play subscribes to a track, from its current group on. */
  private async play(session: Session, track: Track, filter: Filter): Promise<Lane> {
    const sequencer = new Sequencer(await this.consume(track, filter === nextGroup));
    const receive = (o: MediaObject) => {
      this.received += o.payload.length;
      sequencer.push(o);
    };
    const name = { namespace: this.options.namespace, name: track.name };
    const subscription = await session.subscribe(name, { filter, rendezvous: patience }, receive);
    if (subscription.largest && filter === "next object") {
      void session.fetchBefore(subscription, receive).catch(() => {}); // then it begins with the next group
    }
    const close = () => {
      this.lost += sequencer.lost;
      sequencer.close();
      subscription.cancel();
    };
    return { track, subscription, sequencer, close };
  }

  /** consume returns what takes the objects of a track, in order. */
  private async consume(track: Track, replaces: boolean): Promise<(o: MediaObject) => void> {
    if (this.element) return this.element.add(track, () => this.replaceLane());
    const demuxer = newDemuxer(track);
    const take = this.decode(track, demuxer.description, replaces);
    return (o) => {
      for (const frame of demuxer.frames(o)) take(frame);
    };
  }

  /** decode makes a decoder for a track, and returns what takes its frames. */
  private decode(track: Track, description: Uint8Array<ArrayBuffer> | undefined, replaces: boolean) {
    const failed = (error: Error) => {
      this.options.tell(`The decoder has failed: ${error.message}.`);
      this.session?.close(); // and again
    };
    const common = { codec: track.codec, ...(description && { description }) };
    if (track.role === "audio") {
      const config = { ...common, sampleRate: track.sampleRate ?? 48_000, numberOfChannels: track.channels ?? 2 };
      const audio = new Audio(config, this.context, this.gain, this.clock, failed);
      this.decoding.audio = audio;
      return (frame: Frame) => {
        this.clock.arrived(frame.time, performance.now());
        audio.push(frame);
      };
    }
    const config = { ...common, optimizeForLatency: true };
    const video = new VideoDecoding(config, (p) => this.screen.add(p), () => this.screen.room, failed);
    if (!replaces) this.decoding.video = video;
    return (frame: Frame) => {
      this.clock.arrived(frame.time, performance.now());
      if (this.decoding.video !== video) this.replace(video, frame.time);
      video.push(frame);
    };
  }

  /** replace ends the present rendition where another one begins. */
  private replace(video: VideoDecoding, from: number): void {
    this.decoding.video?.close();
    this.screen.forget(from);
    this.decoding.video = video;
    this.replaceLane();
  }

  private replaceLane(): void {
    this.overtaken = !this.lanes.next;
    if (!this.lanes.next) return;
    this.lanes.video?.close();
    this.lanes.video = this.lanes.next;
    delete this.lanes.next;
  }

  /** choose plays another rendition from its next group on. */
  async choose(name: string): Promise<void> {
    this.wanted = name;
    const track = this.tracks.find((t) => t.name === name);
    if (!track || !this.session || this.lanes.next || this.lanes.video?.track === track) return;
    const session = this.session;
    this.keep(session, "next", await this.play(session, track, nextGroup));
    if (this.overtaken) this.replaceLane();
  }

  /** draw keeps time, until the function that it returns is called. */
  private draw(): () => void {
    let going = true;
    const tick = () => {
      if (!going) return;
      this.advance();
      requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
    // Sound goes on while the page is hidden, when nothing is drawn.
    const timer = setInterval(() => {
      this.element?.adjust();
      if (this.clock.adjust(performance.now())) this.screen.catchUp();
      if (document.hidden) this.advance();
    }, adjustInterval / 2);
    return () => {
      going = false;
      clearInterval(timer);
    };
  }

  private advance(): void {
    if (!this.clock.begun) return;
    const now = this.clock.now(performance.now());
    this.skipped += this.decoding.video?.advance(now) ?? 0;
    this.decoding.audio?.advance(now);
    this.screen.draw(now);
  }

  statistics(): Statistics {
    const wall = performance.now();
    const seconds = (wall - this.rate.at) / 1000;
    if (seconds >= 1) {
      const bits = ((this.received - this.rate.received) * 8) / seconds;
      this.rate = { at: wall, received: this.received, bits: this.rate.at ? bits : 0 };
    }
    if (this.element) return { ...this.element.statistics(), lost: this.lost, bitrate: this.rate.bits };
    const age = Date.now() - this.clock.now(wall) / 1000;
    return {
      latency: this.clock.begun ? this.clock.latency(wall) : 0,
      target: this.clock.target,
      endToEnd: this.clock.begun && Math.abs(age) < 60_000 ? age : undefined,
      shown: this.screen.shown,
      dropped: this.screen.dropped + this.skipped,
      lost: this.lost + (this.lanes.video?.sequencer.lost ?? 0) + (this.lanes.audio?.sequencer.lost ?? 0),
      bitrate: this.rate.bits,
      speed: this.clock.speed,
    };
  }
}

/** playable returns the renditions that this browser can decode, the best one first. */
async function playable(tracks: Track[]): Promise<Track[]> {
  const supported = await Promise.all(
    tracks.map(async (t) => !hasWebCodecs() || (await VideoDecoder.isConfigSupported({ codec: t.codec })).supported),
  );
  return tracks
    .filter((_, i) => supported[i])
    .sort((a, b) => (b.height ?? 0) - (a.height ?? 0) || (b.bitrate ?? 0) - (a.bitrate ?? 0));
}

function hasWebCodecs(): boolean {
  return typeof VideoDecoder !== "undefined" && typeof AudioDecoder !== "undefined";
}

function explain(error: unknown): string {
  if (error instanceof RequestError && error.code === 0x10) return "The broadcast is not live. Waiting for it…";
  return `Playback stopped: ${messageOf(error)}. Trying again…`;
}
