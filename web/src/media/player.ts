import { RequestError, type MediaObject, type Session, type Subscription } from "../moqt/session.js";
import { Dialer } from "../moqt/dialer.js";
import { type Filter, nextGroup } from "../moqt/filter.js";
import type { Namespace, Playback } from "../moqt/wire.js";
import { messageOf, pauses, proven, sleep } from "../ui/dom.js";
import { Audio } from "./audio.js";
import { catalogNames, parseCatalog, type Track } from "./catalog.js";
import { chooseInterval, Renditions } from "./chooser.js";
import { Clock } from "./clock.js";
import { type Frame, newDemuxer } from "./demux.js";
import { ElementOutput } from "./element.js";
import { Lane } from "./lane.js";
import { Sequencer } from "./sequencer.js";
import { Screen, VideoDecoding } from "./video.js";

/** How long the relay waits for a publisher, and how long the page waits for a catalog, in milliseconds. */
const patience = 10_000;
const adjustInterval = 100;
const reportInterval = 1000;
/** After so many groups that had nothing but key frames, the layers of a broadcast are taken to be missing. */
const proof = 3;
/** How long the last pictures of a rendition may take after those of another one begin, in microseconds. */
const overlap = 200_000;

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
  connect: (url?: string) => Promise<Session>; // to a URL, or to the page's relay
  namespace: Namespace;
  canvas: HTMLCanvasElement;
  video: HTMLVideoElement; // is used where the browser has no WebCodecs
  target: number; // ms
  rendition: string | undefined; // the name of the one that the user has chosen, if any
  /** tell says in words what the player does; "" is: it plays. */
  tell: (state: string) => void;
  /** found is called with the renditions of the broadcast. */
  found: (renditions: Track[]) => void;
  /** plays is called with the rendition that begins. */
  plays: (rendition: Track) => void;
}

/** Lanes are what is played. next will take the place of video, and before had it. */
interface Lanes {
  video?: Lane;
  audio?: Lane;
  next?: Lane;
  before?: Lane;
}

/** Empty is the failure of a track that brings nothing. */
class Empty extends Error {}

/** Player plays a broadcast, on one session after another. */
export class Player {
  private readonly dialer: Dialer;
  private readonly clock: Clock;
  private readonly screen: Screen;
  private readonly context = new AudioContext({ latencyHint: "interactive" });
  private readonly gain = this.context.createGain();
  private readonly element: ElementOutput | undefined; // instead of clock, screen and context
  private session: Session | undefined;
  private videos: Track[] = []; // that can be played, the best one first
  private lanes: Lanes = {};
  private began = 0; // the media time with which the rendition began
  private whole = false; // layers do not come, so tracks with whole groups are played
  private wanted: string | undefined; // the name of the rendition that the user has chosen, if any
  private renditions: Renditions | undefined; // else the player chooses one of these
  private over = (_reason: string) => {}; // ends a session
  private stopped = false;
  private received = 0;
  private rate = { at: 0, received: 0, bits: 0 };
  private skipped = 0;
  private lost = 0;
  private newest = 0; // the media time of the latest picture that has come
  private overrun = 0; // of lanes that are closed
  private reported: { of?: Subscription; text?: string } = {}; // what the relay knows

  constructor(private readonly options: PlayerOptions) {
    this.dialer = new Dialer(options.connect);
    this.wanted = options.rendition;
    this.clock = new Clock(options.target);
    this.screen = new Screen(options.canvas);
    this.gain.connect(this.context.destination);
    const failed = (error: unknown) => this.fail("Playback", error);
    if (!hasWebCodecs()) this.element = new ElementOutput(options.video, options.target, failed);
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
        const session = await this.dialer.dial();
        this.session = session; // reset closes it
        const over = new Promise<string>((resolve) => (this.over = resolve));
        await this.begin(session);
        const began = performance.now();
        if (!this.stopped) this.options.tell("");
        await Promise.race([session.closed, over]);
        if (performance.now() - began >= proven) wait = pauses();
      } catch (error) {
        if (!this.stopped) this.options.tell(explain(error));
      }
      this.reset();
      if (!this.stopped && !this.dialer.moved) await sleep(wait.next().value);
    }
    stopDrawing();
  }

  stop(): void {
    this.stopped = true;
    this.dialer.stop();
    this.session?.close();
    void this.context.close();
  }

  /** reset drops what belongs to a session. The last picture stays. */
  private reset(): void {
    for (const lane of Object.values(this.lanes) as Lane[]) this.close(lane);
    this.lanes = {};
    this.renditions = undefined;
    this.element?.reset();
    this.screen.forget();
    this.clock.reset();
    this.newest = 0;
    this.reported = {};
    this.session?.close();
    this.session = undefined;
  }

  private async begin(session: Session): Promise<void> {
    if (this.stopped) return session.close();
    this.options.tell("Loading…");
    const tracks = (await this.load(session)).filter((t) => !this.element || ElementOutput.plays(t));
    this.videos = await playable(tracks.filter((t) => t.role === "video"));
    const audio = await audible(tracks.filter((t) => t.role === "audio"));
    if (this.stopped) return;
    if (this.videos.length === 0 && !audio) throw new Error("this browser can play none of the tracks");
    const video = this.chosen ?? this.videos[0];
    this.options.found(this.videos);
    if (video) this.options.plays(video);
    this.renditions = video && new Renditions(video, this.videos);
    await Promise.all([
      video && this.play(session, (this.lanes.video = new Lane(video)), "next object"),
      audio && this.play(session, (this.lanes.audio = new Lane(audio)), "next object"),
    ]);
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
        if (this.stopped || !(error instanceof RequestError || error instanceof Empty)) throw error;
        refused ??= error;
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
        sleep(patience).then(() => Promise.reject(new Empty(`the track ${name} has no content`))),
      ]);
    } finally {
      s.cancel();
    }
  }

  /** play subscribes to the track of a lane, from its current group on. */
  private async play(session: Session, lane: Lane, filter: Filter): Promise<void> {
    const take = await this.consume(lane);
    const sequencer = new Sequencer((o) => this.attempt(() => take(o)));
    lane.sequencer = sequencer;
    const layers = this.whole ? undefined : lane.track.layers;
    const lacksLayers = countKeys();
    const receive = (o: MediaObject) => {
      this.received += o.payload.length;
      sequencer.push(o);
      if (!layers || this.whole || !lacksLayers(o)) return;
      this.whole = true;
      this.over("the layers of the video do not come");
    };
    const subscribe = (name: string) =>
      session.subscribe({ namespace: this.options.namespace, name }, { filter, rendezvous: patience }, receive);
    const s = await subscribe(layers ?? lane.track.name).catch((error: unknown) => {
      if (!layers || !(error instanceof RequestError)) throw error;
      return subscribe(lane.track.name);
    });
    lane.accept(s);
    if (lane.closed) return;
    void s.done.then((reason) => {
      if (lane === this.lanes.video || lane === this.lanes.audio) this.over(reason);
    });
    if (s.largest && filter === "next object") {
      void session.fetchBefore(s, receive).catch(() => {}); // then it begins with the next group
    }
  }

  private close(lane: Lane): void {
    if (!lane.closed) {
      this.lost += lane.lost;
      this.overrun += lane.video?.overrun ?? 0;
    }
    lane.close();
  }

  /** consume returns what takes the objects of a lane, in order. */
  private async consume(lane: Lane): Promise<(o: MediaObject) => void> {
    const demuxer = newDemuxer(lane.track);
    const measure = (o: MediaObject, frame: Frame) => {
      if (o.arrival) this.renditions?.arrived(o.arrival, lane.track, frame.time / 1000, o.payload.length);
    };
    if (this.element) {
      const take = await this.element.add(lane.track, () => this.takeOver(lane, Infinity));
      return (o) => {
        if (lane.track.role === "video") for (const frame of demuxer.frames(o)) measure(o, frame);
        take(o);
      };
    }
    const take = this.decode(lane, demuxer.description);
    return (o) => {
      for (const frame of demuxer.frames(o)) {
        measure(o, frame);
        take(frame);
      }
    };
  }

  /** decode makes a decoder for a lane, and returns what takes its frames. */
  private decode(lane: Lane, description: Uint8Array<ArrayBuffer> | undefined): (frame: Frame) => void {
    const { track } = lane;
    const failed = (error: Error) => this.fail("The decoder", error);
    if (track.role === "audio") {
      const audio = new Audio(audioConfig(track, description), this.context, this.gain, this.clock, failed);
      lane.audio = audio;
      return (frame) => {
        this.clock.arrived(frame.time, performance.now());
        audio.push(frame);
      };
    }
    const config = { codec: track.codec, ...(description && { description }), optimizeForLatency: true };
    const video = new VideoDecoding(config, (p) => this.screen.add(p), () => this.screen.room, failed);
    lane.video = video;
    return (frame) => {
      this.clock.arrived(frame.time, performance.now());
      this.newest = Math.max(this.newest, frame.time);
      if (lane === this.lanes.next) {
        if (!frame.key || this.screen.shows(frame.time)) return; // with a later group
        this.takeOver(lane, frame.time);
      }
      video.push(frame);
    };
  }

  private fail(what: string, error: unknown): void {
    this.options.tell(`${what} has failed: ${messageOf(error)}.`);
    this.session?.close(); // and again
  }

  /** attempt does what media can make fail. An exception of it must end neither drawing nor the reading of a stream. */
  private attempt(act: () => void): void {
    try {
      act();
    } catch (error) {
      this.fail("Playback", error);
    }
  }

  /** takeOver lets the next rendition play from a time on, and the present one up to it, if that is still wanted. */
  private takeOver(next: Lane, from: number): boolean {
    if (next !== this.lanes.next) return false;
    if (this.lanes.before) this.close(this.lanes.before);
    const { video } = this.lanes;
    video?.video?.endAt(from);
    this.screen.forget(from);
    this.began = from;
    this.lanes.video = next;
    delete this.lanes.next;
    if (video && from < Infinity) this.lanes.before = video;
    else if (video) this.close(video);
    this.options.plays(next.track);
    return true;
  }

  /** chosen is the rendition that the user has chosen, if there is such a one. */
  private get chosen(): Track | undefined {
    return this.videos.find((t) => t.name === this.wanted);
  }

  /** choose plays the rendition with that name from its next group on. Without a name, the player chooses. */
  async choose(name: string | undefined): Promise<void> {
    this.wanted = name;
    const video = this.lanes.video?.track;
    if (video) this.renditions = new Renditions(video, this.videos);
    if (this.chosen) await this.change(this.chosen);
  }

  /** change plays another rendition from its next group on. */
  private async change(track: Track): Promise<void> {
    const { next, video } = this.lanes;
    if (!this.session || (next ?? video)?.track === track) return;
    if (next) this.close(next);
    delete this.lanes.next;
    if (video?.track === track) return;
    const lane = new Lane(track);
    this.lanes.next = lane;
    try {
      await this.play(this.session, lane, nextGroup);
    } catch (error) {
      this.close(lane);
      if (this.lanes.next === lane) delete this.lanes.next;
      throw error;
    }
  }

  /** decide lets the player choose a rendition, unless the user has. */
  private async decide(): Promise<void> {
    const { session, renditions } = this;
    if (!session || !renditions || this.chosen) return;
    const rtt = await session.rtt();
    if (this.session !== session || this.renditions !== renditions || this.chosen) return;
    renditions.report(performance.now(), this.playback());
    await this.change(renditions.choose(performance.now(), rtt)).catch((error: unknown) => {
      renditions.refused(performance.now(), error instanceof RequestError);
    });
  }

  /** report tells the relay what becomes of the pictures, if that has changed. */
  private async report(): Promise<void> {
    const of = this.lanes.video?.subscription;
    const playback = this.playback();
    const text = JSON.stringify(playback);
    if (!of || (of === this.reported.of && text === this.reported.text)) return;
    const sent = await this.session?.report(of, playback).catch(() => false); // the subscription has ended
    if (sent) this.reported = { of, text };
  }

  private playback(): Playback {
    const { canvas, video } = this.options;
    const shown = this.element ? video : canvas;
    const pixels = (n: number) => Math.round((n || 0) * devicePixelRatio);
    const display = { width: pixels(shown.clientWidth), height: pixels(shown.clientHeight) };
    const rough = (ms: number) => 50 * Math.round(Math.max(0, ms) / 50);
    if (this.element) {
      const { latency, dropped } = this.element.statistics();
      return { buffered: rough(latency), dropped, ...display };
    }
    const lanes: Lane[] = Object.values(this.lanes);
    const dropped = lanes.reduce((sum, lane) => sum + (lane.video?.overrun ?? 0), this.overrun);
    if (!this.clock.begun) return { dropped, ...display };
    return { buffered: rough((this.newest - this.clock.now(performance.now())) / 1000), dropped, ...display };
  }

  /** draw keeps time, until the function that it returns is called. */
  private draw(): () => void {
    let going = true;
    const tick = () => {
      if (!going) return;
      requestAnimationFrame(tick);
      this.attempt(() => this.advance());
    };
    requestAnimationFrame(tick);
    const reporting = setInterval(() => void this.report(), reportInterval);
    const choosing = setInterval(() => void this.decide(), chooseInterval);
    // Sound goes on while the page is hidden, when nothing is drawn.
    const timer = setInterval(() => {
      this.attempt(() => this.element?.adjust());
      if (this.clock.adjust(performance.now())) this.screen.catchUp();
      if (document.hidden) this.attempt(() => this.advance());
    }, adjustInterval);
    return () => {
      going = false;
      clearInterval(timer);
      clearInterval(choosing);
      clearInterval(reporting);
    };
  }

  private advance(): void {
    if (!this.clock.begun) return;
    const now = this.clock.now(performance.now());
    const { video, audio, before } = this.lanes;
    if (before && now > this.began + overlap) {
      this.close(before);
      delete this.lanes.before;
    }
    this.skipped += (before?.video?.advance(now) ?? 0) + (video?.video?.advance(now) ?? 0);
    audio?.audio?.advance(now);
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
      lost: (Object.values(this.lanes) as Lane[]).reduce((sum, lane) => sum + lane.lost, this.lost),
      bitrate: this.rate.bits,
      speed: this.clock.speed,
    };
  }
}

/**
 * countKeys returns what reports whether a subscription brings key frames only, from its objects: some relays drop all
 * but one subgroup of each group.
 */
function countKeys(): (o: MediaObject) => boolean {
  const groups = new Set<number>();
  let others = false;
  return (o) => {
    others ||= o.subgroup > 0;
    if (!others && o.arrival) groups.add(o.group);
    return !others && groups.size >= proof;
  };
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

/** audible returns the first track of sound that this browser can decode, if there is one. Video plays without, too. */
async function audible(tracks: Track[]): Promise<Track | undefined> {
  for (const t of tracks) if (!hasWebCodecs() || (await decodesAudio(t))) return t;
  return undefined;
}

async function decodesAudio(t: Track): Promise<boolean> {
  try {
    return (await AudioDecoder.isConfigSupported(audioConfig(t, newDemuxer(t).description))).supported === true;
  } catch {
    return false; // no valid configuration, or no valid init segment
  }
}

function audioConfig(t: Track, description: Uint8Array<ArrayBuffer> | undefined): AudioDecoderConfig {
  const { codec, sampleRate = 48_000, channels: numberOfChannels = 2 } = t;
  return { codec, sampleRate, numberOfChannels, ...(description && { description }) };
}

function hasWebCodecs(): boolean {
  return typeof VideoDecoder !== "undefined" && typeof AudioDecoder !== "undefined";
}

function explain(error: unknown): string {
  if (error instanceof RequestError && error.code === 0x10) return "The broadcast is not live. Waiting for it…";
  return `Playback stopped: ${messageOf(error)}. Trying again…`;
}
