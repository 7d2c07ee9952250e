import type { Arrival } from "../moqt/session.js";
import type { Track } from "./catalog.js";
import { Meter } from "./meter.js";

// The rule by which a player chooses a rendition: docs/broadcasts.md says it in words, and sluice sub has the same.
// Times are in milliseconds.
export const chooseInterval = 500;
const lateDelay = 500; // or two RTTs, if that is more
const settling = 1000; // after a switch, or two RTTs
const calmTime = 5000;
const stuckTime = 5000; // without any object since another rendition was chosen
const trialTime = 20_000; // a better rendition that is left within this time was a mistake
const leastHold = 30_000;
const mostHold = 300_000;
const fitRate = 0.8; // of the rate that arrives while the path is full
const sureRate = 0.9; // of that rate: a better rendition may be tried at once
const sureBurst = 1.3; // times its bitrate: the rate of bursts with which a better rendition may be tried at once

/** Chooser chooses one of several renditions by how their objects arrive. */
export class Chooser {
  private readonly meter = new Meter();
  private before: number; // the one that was played before
  private changing = true; // nothing has arrived of the current one
  private since = 0; // when the current one was chosen, or its first object arrived
  private raised = false; // it is a better one than the one before
  private delay = 0;
  private calm: number | undefined; // since when objects come in time
  private ceiling = 0; // the rate of the path when it was full last
  private hold = leastHold / 2;
  private held = 0; // until when the ceiling counts

  /** The bitrates are in ascending order. */
  constructor(
    private readonly bitrates: number[],
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
  }

  /** refused tells that the rendition that choose returned cannot be had now, or never. The one before goes on. */
  refused(now: number, never: boolean): void {
    if (never) this.bitrates[this.current] = 0;
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

  /** lower leaves a rendition that comes late and does not catch up. The path is full, so what arrives is its rate. */
  private lower(now: number): void {
    const rate = this.meter.rate(now);
    const lower = [...this.bitrates.keys()].filter((i) => i < this.current && this.bitrates[i]! > 0);
    const next = lower.findLast((i) => this.bitrates[i]! <= fitRate * rate) ?? lower[0];
    if (next === undefined) return;
    this.hold = this.raised && now - this.since < trialTime ? Math.min(2 * this.hold, mostHold) : leastHold;
    this.ceiling = rate;
    this.held = now + this.hold;
    this.change(now, next);
  }

  /** raise tries the next better rendition, unless the path was too slow for it not long ago. */
  private raise(now: number): void {
    const next = this.bitrates.findIndex((bitrate, i) => i > this.current && bitrate > 0);
    if (next < 0) return;
    const bitrate = this.bitrates[next]!;
    if (now < this.held && bitrate > sureRate * this.ceiling && this.meter.burst() < sureBurst * bitrate) return;
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
    this.chooser = new Chooser(this.tracks.map((t) => t.bitrate ?? 0), this.tracks.indexOf(first));
  }

  /** arrived counts an object of a track. Times are in milliseconds. */
  arrived(arrival: Arrival, track: Track, media: number, bytes: number): void {
    const i = this.tracks.indexOf(track);
    if (i >= 0) this.chooser.arrived(arrival, i, media, bytes);
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
