import type { Arrival } from "../moqt/session.js";

// Times are in milliseconds.
const step = 100;
const delayWindow = 1000;
const rateWindow = 2000;
const basePeriod = 30_000;
// In the beginning a path carries more than what arrives: the sender's window grows, and what it loses when that is too
// large holds back what comes after it.
const startTime = 3000;
const startRate = 1.5; // times what arrives
/** The smallest object whose arrival tells how fast the path is, in bytes. */
const burstSize = 20 << 10;
const burstCount = 5;
/** A step between objects that no path makes: the publisher has started its times again. */
const timelineBreak = 10_000;

interface Slot {
  number: number;
  bytes: number;
  delay: number; // the least one
}

/** Meter measures how the objects of a content arrive. Its memory does not grow. All times are in milliseconds. */
export class Meter {
  private begun = false;
  private zero = 0; // from which arrivals count
  private first = 0; // how long the first object took to arrive, until then
  private latest = 0; // when the latest object came
  private media = 0; // media time of the latest object
  private step = 0; // between the latest two
  private base: [number, number] = [0, 0]; // the least lag of this period, and of the one before
  private until = 0; // when the period ends
  private slots: Slot[] = [];
  private bursts: number[] = []; // the latest ones, in bits per second

  /** last is when the latest object came. */
  get last(): number {
    return this.latest;
  }

  /** arrived counts an object with a media time. */
  arrived({ at, took }: Arrival, media: number, bytes: number): void {
    const lag = at - media;
    if (!this.begun || (Math.abs(lag - this.base[0]) > timelineBreak && Math.abs(media - this.media) > timelineBreak)) {
      this.begin(at, took, media, lag);
    }
    if (at > this.until) {
      this.base = [lag, this.base[0]];
      this.until = at + basePeriod;
    }
    this.base[0] = Math.min(this.base[0], lag);
    if (media > this.media) {
      this.step = media - this.media;
      this.media = media;
    }
    this.latest = at;
    this.count(at, bytes, lag - this.least);
    if (bytes >= burstSize) {
      this.bursts = [...this.bursts, (bytes * 8000) / Math.max(took, 1)].slice(-burstCount);
    }
  }

  private begin(at: number, took: number, media: number, lag: number): void {
    this.begun = true;
    this.zero = at;
    this.first = took;
    this.media = media;
    this.step = 0;
    this.base = [lag, lag];
    this.until = at + basePeriod;
    this.slots = [];
    this.bursts = [];
  }

  private count(at: number, bytes: number, delay: number): void {
    const number = this.number(at);
    const slot = this.slots.at(-1);
    if (slot?.number !== number) {
      this.slots = [...this.slots.filter((s) => this.within(s, at, rateWindow)), { number, bytes, delay }];
      return;
    }
    slot.bytes += bytes;
    slot.delay = Math.min(slot.delay, delay);
  }

  private get least(): number {
    return Math.min(...this.base);
  }

  private number(at: number): number {
    return Math.floor((at - this.zero) / step);
  }

  private within(s: Slot, now: number, window: number): boolean {
    return s.number > this.number(now) - window / step;
  }

  /** delay returns by how much objects come later than the fastest ones: the least of the last second, since a loss
   * delays only a few, or by how much the next one is overdue. */
  delay(now: number): number {
    if (!this.begun) return 0;
    const overdue = now - this.least - this.media - this.step;
    const delays = this.slots.filter((s) => this.within(s, now, delayWindow)).map((s) => s.delay);
    return Math.max(delays.length > 0 ? Math.min(...delays) : 0, overdue, 0);
  }

  /** rate returns how many bits per second have arrived in the two seconds before the latest object. What has come of
   * the next one is not known, so the time since then does not count, unless that is long. In the beginning it returns
   * more. */
  rate(now: number): number {
    const times = now - this.zero < startTime ? startRate : 1;
    const end = now - this.latest < delayWindow ? this.latest : now;
    const bytes = this.slots.filter((s) => this.within(s, end, rateWindow)).reduce((sum, s) => sum + s.bytes, 0);
    return (times * bytes * 8000) / Math.max(Math.min(end - this.zero + this.first, rateWindow), step);
  }

  /** burst returns the rate at which large objects arrive, which tells more than the rate of all if the path is not
   * full. */
  burst(): number {
    if (this.bursts.length < burstCount) return 0;
    return this.bursts.toSorted((a, b) => a - b)[burstCount >> 1]!;
  }
}
