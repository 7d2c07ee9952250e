import type { Arrival } from "../moqt/session.js";
import type { Playback } from "../moqt/wire.js";
import type { Track } from "./catalog.js";
import { Meter } from "./meter.js";

// The rule by which a player chooses a rendition: docs/broadcasts.md says it in words, and sluice sub has the same. What
// a player says about itself is in docs/moqt.md; here, the buffer does not make media late.
// Times are in milliseconds.
export const chooseInterval = 500;
const lateDelay = 500; // or two RTTs, if that is more
const settling = 1000; // after a switch, or two RTTs
const calmTime = 5000;
const stuckTime = 5000; // without any object since another rendition was chosen
const trialTime = 20_000; // a better rendition that is left within this time was a mistake
const leastHold = 30_000;
const mostHold = 300_000;
const fitRate = 0.95; // of the rate that arrives while the path is full
const sureRate = 0.9; // of that rate: a better rendition may be tried at once
const sureBurst = 1.3; // times its bitrate: the rate of bursts with which a better rendition may be tried at once

const dropWindow = 2000;
const mostBuffer = 10_000; // more than that does not count
const dropLimit = 10; // frames in dropWindow

/** Rendition is one of several to choose from. */
export interface Rendition {
  bitrate: number; // bits per second; 0: it cannot be had
  pixels: number; // of a picture; 0: not known
}

/** Showing is what the last reports of a player say. */
class Showing {
  private buffered = 0; // ms that wait to be shown
  private pixels = 0; // of the display; 0: not known
  private begins = 0; // when the current rendition is shown: what is dropped before is of another one
  private window: number | undefined; // when the present dropWindow began; undefined: with the next report
  private before = 0; // frames that were dropped until then
  slow = false; // it has dropped too many frames of the current rendition

  /** report takes a report. Reports may be farther apart than dropWindow: then as many frames more may be dropped. */
  report(now: number, { buffered, dropped, width, height }: Playback): void {
    this.buffered = buffered ?? 0;
    this.pixels = width * height;
    if (now < this.begins) return;
    const windows = this.window === undefined ? 0 : Math.max((now - this.window) / dropWindow, 1);
    const slow = windows > 0 && dropped - this.before >= dropLimit * windows;
    this.slow ||= slow;
    if (!slow && windows === 1 && dropped >= this.before) return;
    this.window = now;
    this.before = dropped;
  }

  /** began tells that media of another rendition has come, which is shown after what is buffered. */
  began(now: number): void {
    this.begins = now + Math.min(this.buffered, mostBuffer);
    this.window = undefined;
    this.slow = false;
  }

  /** fits reports whether the display has at least the pixels of a rendition, as far as is known. */
  fits({ pixels }: Rendition): boolean {
    return this.pixels === 0 || pixels <= this.pixels;
  }
}

/** Chooser chooses one of several renditions by how their objects arrive, and what the player makes of them. */
export class Chooser {
  private readonly meter = new Meter();
  private readonly showing = new Showing();
  private before: number; // the one that was played before
  private changing = true; // nothing has arrived of the current one
  private since = 0; // when the current one was chosen, or its first object arrived
  private raised = false; // it is a better one than the one before
  private delay = 0;
  private calm: number | undefined; // since when objects come in time
  private ceiling = 0; // the rate of the path when it was full last
  private hold = leastHold / 2;
  private burst = 0; // of the path when the current one was tried
  private refuted = 0; // such a rate with which a better one came late, as long as the ceiling counts
  private held = 0; // until when the ceiling counts
  private decodable = 0; // the best rendition that was decoded in time
  private spared = 0; // until when there is no better one than that

  /** The bitrates are in ascending order. */
  constructor(
    private readonly of: Rendition[],
    private current: number,
  ) {
    this.before = current;
  }

  /** arrived counts an object of a rendition. */
  arrived(arrival: Arrival, rendition: number, media: number, bytes: number): void {
    this.meter.arrived(arrival, media, bytes);
    if (!this.changing || rendition !== this.current) return;
    this.changing = false;
    this.since = arrival.at;
    this.calm = undefined;
    this.showing.began(arrival.at);
  }

  /** report takes what the player says about itself. */
  report(now: number, r: Playback): void {
    this.showing.report(now, r);
  }

  /** refused tells that the rendition that choose returned cannot be had now, or never. The one before goes on. */
  refused(now: number, never: boolean): void {
    if (never) this.of[this.current]!.bitrate = 0;
    this.current = this.before;
    this.changing = false;
    this.since = now;
    this.distrust(now);
  }

  /** choose returns the rendition to play from its next group on. It is called each chooseInterval. */
  choose(now: number, rtt: number): number {
    const before = this.delay;
    this.delay = this.meter.delay(now);
    const late = Math.max(lateDelay, 2 * rtt);
    if (this.delay > late / 2) this.calm = undefined;
    else this.calm ??= now;
    if (this.changing) {
      if (this.current !== this.before && Math.min(now - this.meter.last, now - this.since) > stuckTime) {
        this.distrust(now);
        this.change(now, this.before);
      }
    } else if (now - this.since < Math.max(settling, 2 * rtt)) {
      // What comes is of the rendition before.
    } else if (this.delay > late && this.delay >= before) {
      this.lower(now);
    } else if (this.showing.slow) {
      this.spare(now);
    } else if (!this.showing.fits(this.of[this.current]!)) {
      this.shrink(now);
    } else if (this.calm !== undefined && now - this.calm >= calmTime) {
      this.raise(now);
    }
    return this.current;
  }

  private change(now: number, to: number): void {
    this.raised = to > this.current;
    this.before = this.current;
    this.current = to;
    this.changing = true;
    this.since = now;
  }

  /** distrust lets better renditions wait, for a reason that is not the rate of the path. */
  private distrust(now: number): void {
    this.ceiling = 0;
    this.held = now + leastHold;
  }

  /** below returns the best rendition below the current one that passes, or else the least one, if there is any. */
  private below(passes: (r: Rendition) => boolean): number | undefined {
    const lower = [...this.of.keys()].filter((i) => i < this.current && this.of[i]!.bitrate > 0);
    return lower.findLast((i) => passes(this.of[i]!)) ?? lower[0];
  }

  /** lower leaves a rendition that comes late and does not catch up. The path is full, so what arrives is its rate. */
  private lower(now: number): void {
    const rate = this.meter.rate(now);
    const next = this.below((r) => r.bitrate <= fitRate * rate && this.showing.fits(r));
    if (next === undefined) return;
    const onTrial = this.onTrial(now);
    this.refuted = onTrial ? this.burst : 0;
    this.holdBack(now);
    this.ceiling = rate;
    this.held = now + this.hold;
    this.change(now, onTrial ? this.before : next);
  }

  /** onTrial reports whether the current rendition is a better one that was chosen not long ago. */
  private onTrial(now: number): boolean {
    return this.raised && now - this.since < trialTime;
  }

  /** holdBack sets for how long better renditions have to wait: for twice as long if the present one was a mistake. */
  private holdBack(now: number): void {
    this.hold = this.onTrial(now) ? Math.min(2 * this.hold, mostHold) : leastHold;
  }

  /** spare leaves a rendition that the player does not decode in time. */
  private spare(now: number): void {
    this.showing.slow = false;
    const next = this.below(() => true);
    if (next === undefined) return;
    this.holdBack(now);
    this.decodable = next;
    this.spared = now + this.hold;
    this.change(now, next);
  }

  /** shrink leaves a rendition with more pixels than the display has. */
  private shrink(now: number): void {
    const next = this.below((r) => this.showing.fits(r));
    if (next !== undefined) this.change(now, next);
  }

  /** raise tries the next better rendition, unless the path or the decoder was too slow for it not long ago. */
  private raise(now: number): void {
    const next = this.of.findIndex((r, i) => i > this.current && r.bitrate > 0 && this.showing.fits(r));
    if (next < 0) return;
    const { bitrate } = this.of[next]!;
    const burst = this.meter.burst();
    const sure = bitrate <= sureRate * this.ceiling || burst >= sureBurst * Math.max(bitrate, this.refuted);
    if ((now < this.held && !sure) || (now < this.spared && next > this.decodable)) return;
    this.burst = burst;
    this.change(now, next);
  }
}

/** Renditions are the tracks among which a player chooses by itself. */
export class Renditions {
  private readonly tracks: Track[];
  private readonly chooser: Chooser;

  /** first is the one with which the player begins; all others have to be able to follow it. */
  constructor(first: Track, all: Track[]) {
    this.tracks = all.filter((t) => t === first || follows(first, t)).sort((a, b) => a.bitrate! - b.bitrate!);
    const renditions = this.tracks.map((t) => ({ bitrate: t.bitrate ?? 0, pixels: (t.width ?? 0) * (t.height ?? 0) }));
    this.chooser = new Chooser(renditions, this.tracks.indexOf(first));
  }

  /** arrived counts an object of a track. Times are in milliseconds. */
  arrived(arrival: Arrival, track: Track, media: number, bytes: number): void {
    const i = this.tracks.indexOf(track);
    if (i >= 0) this.chooser.arrived(arrival, i, media, bytes);
  }

  /** report takes what the player says about itself. */
  report(now: number, r: Playback): void {
    this.chooser.report(now, r);
  }

  /** choose returns the track to play from its next group on. */
  choose(now: number, rtt: number): Track {
    return this.tracks[this.chooser.choose(now, rtt)]!;
  }

  refused(now: number, never: boolean): void {
    this.chooser.refused(now, never);
  }
}

/** follows reports whether one rendition may go on where another one ends. */
function follows(t: Track, other: Track): boolean {
  const codec = ({ codec }: Track) => codec.split(".")[0];
  return t.altGroup !== undefined && other.altGroup === t.altGroup && other.packaging === t.packaging &&
    codec(other) === codec(t) && !!t.bitrate && !!other.bitrate;
}
