import type { MediaObject } from "../moqt/session.js";
import type { Track } from "./catalog.js";

/** What has been played is kept for this time, in seconds. */
const kept = 10;
/** If the buffer is full, only this much of it is kept, in seconds. */
const least = 1;
/** Beyond this distance from the target the element jumps, in seconds. */
const jump = 1;

/** If less than this is left to show, the next rendition does not wait for the end of the present one, in seconds. */
const scarce = 0.1;

/** Fill is a buffer of the element, and what waits for it: media, or the type of what follows. */
interface Fill {
  kind: Track["role"];
  track: Track;
  buffer: SourceBuffer;
  queue: (BufferSource | string)[];
  next?: Next;
}

/** Next is another rendition, whose objects wait until all before them have come of the present one. */
interface Next {
  track: Track;
  group: number; // its first one
  waiting: BufferSource[];
  replaces: () => boolean;
}

/**
 * ElementOutput plays CMAF by a video element and Media Source Extensions, where a browser has no WebCodecs. The element
 * keeps sound and picture together; its buffer is what the player is behind.
 */
export class ElementOutput {
  private source = new MediaSource();
  private buffers: Fill[] = [];

  constructor(
    private readonly video: HTMLVideoElement,
    public target: number,
    private readonly failed: (error: unknown) => void,
  ) {
    video.addEventListener("error", () => {
      if (video.error) failed(new Error(video.error.message || "the browser cannot play the media"));
    });
    this.reset();
  }

  /** plays reports whether the browser can play a track in this way. */
  static plays(t: Track): boolean {
    return t.packaging === "cmaf" && MediaSource.isTypeSupported(typeOf(t));
  }

  /** reset drops everything: a new session begins. */
  reset(): void {
    URL.revokeObjectURL(this.video.src);
    this.source = new MediaSource();
    this.buffers = [];
    this.video.src = URL.createObjectURL(this.source);
  }

  /**
   * add returns what takes the objects of a track. replaces is called when it is to take the place of another rendition,
   * and reports whether that is still wanted.
   */
  async add(track: Track, replaces: () => boolean): Promise<(o: MediaObject) => void> {
    if (!track.init) throw new Error(`there is no init segment of track ${track.name}`);
    if (this.source.readyState !== "open") {
      await new Promise((resolve) => this.source.addEventListener("sourceopen", resolve, { once: true }));
    }
    let known = this.buffers.find((b) => b.kind === track.role);
    if (!known) {
      const buffer = this.source.addSourceBuffer(typeOf(track));
      known = { kind: track.role, track, buffer, queue: [track.init] };
      const mine = known;
      buffer.addEventListener("updateend", () => this.feed(mine));
      this.buffers.push(mine);
    }
    const mine = known;
    return (o) => {
      if (mine.track !== track) {
        if (mine.next?.replaces !== replaces) mine.next = { track, group: o.group, waiting: [], replaces };
        mine.next.waiting.push(o.payload);
        return;
      }
      if (mine.next && o.group >= mine.next.group && this.change(mine, mine.next)) return;
      mine.queue.push(o.payload);
      this.feed(mine);
    };
  }

  /** change goes on with another rendition, and reports whether it does. */
  private change(b: Fill, { track, waiting, replaces }: Next): boolean {
    delete b.next;
    if (!replaces()) return false;
    b.track = track;
    b.queue.push(typeOf(track), track.init!, ...waiting);
    this.feed(b);
    return true;
  }

  private feed(b: Fill): void {
    if (b.buffer.updating || !this.buffers.includes(b)) return;
    if (this.source.readyState !== "open") return this.failed(new Error("the browser takes no more media"));
    const from = b.buffer.buffered.length > 0 ? b.buffer.buffered.start(0) : Infinity;
    if (from < this.video.currentTime - 2 * kept) {
      b.buffer.remove(from, this.video.currentTime - kept);
      return;
    }
    let next = b.queue.shift();
    if (typeof next === "string") {
      b.buffer.changeType(next);
      next = b.queue.shift();
    }
    if (next) this.append(b, next as BufferSource);
  }

  /** append fills a buffer. What a full one does not take waits until there is room: adjust tries again. */
  private append(b: Fill, media: BufferSource): void {
    try {
      b.buffer.appendBuffer(media);
    } catch (error) {
      if (!(error instanceof Error) || error.name !== "QuotaExceededError") throw error;
      b.queue.unshift(media);
      const { buffered } = b.buffer;
      const end = this.video.currentTime - least;
      if (buffered.length > 0 && buffered.start(0) < end) b.buffer.remove(buffered.start(0), end);
    }
  }

  /** adjust brings the element nearer to its target. It is called a few times a second. */
  adjust(): void {
    const { buffered } = this.video;
    const left = buffered.length > 0 ? buffered.end(buffered.length - 1) - this.video.currentTime : 0;
    for (const b of this.buffers) if (b.queue.length > 0) this.feed(b);
    for (const b of this.buffers) if (b.next && left < scarce) this.change(b, b.next);
    if (buffered.length === 0) return;
    const end = buffered.end(buffered.length - 1);
    const error = end - this.video.currentTime - this.target / 1000; // positive: too late
    const within = this.video.currentTime >= buffered.start(buffered.length - 1);
    if (!within || error > jump) {
      this.video.currentTime = Math.max(buffered.start(buffered.length - 1), end - this.target / 1000);
    } else {
      this.video.playbackRate = 1 + Math.max(-0.04, Math.min(0.04, error / 2));
    }
    if (this.video.paused) void this.video.play().catch(() => {}); // it may not without a click, but if it is muted
  }

  statistics() {
    const { buffered } = this.video;
    const end = buffered.length > 0 ? buffered.end(buffered.length - 1) : this.video.currentTime;
    const quality = this.video.getVideoPlaybackQuality();
    return {
      latency: (end - this.video.currentTime) * 1000,
      target: this.target,
      endToEnd: undefined,
      shown: quality.totalVideoFrames - quality.droppedVideoFrames,
      dropped: quality.droppedVideoFrames,
      speed: this.video.playbackRate,
    };
  }
}

function typeOf(t: Track): string {
  return `${t.role}/mp4; codecs="${t.codec}"`;
}
