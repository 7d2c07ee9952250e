/** How far back arrivals are looked at, in milliseconds. */
const memory = 10_000;
/** Beyond this error the clock jumps, in milliseconds. */
const jump = 400;
/** The largest change of speed: hardly seen or heard. */
const maxChange = 0.04;

/**
 * Clock says which media time is to be shown and heard now. It stays a target behind the fastest arrivals of the last
 * seconds, and changes its speed a little to do so. Wall times are those of performance.now(), in milliseconds; media
 * times are in microseconds.
 */
export class Clock {
  private arrivals: { at: number; lead: number }[] = []; // minima of a second each
  private base: { wall: number; media: number } | undefined;
  private rate = 1;

  constructor(public target: number) {}

  /** arrived notes that media up to a time has come. */
  arrived(media: number, wall: number): void {
    const lead = wall - media / 1000;
    const last = this.arrivals.at(-1);
    if (last && wall - last.at < 1000) last.lead = Math.min(last.lead, lead);
    else this.arrivals.push({ at: wall, lead });
    this.arrivals = this.arrivals.filter((a) => wall - a.at < memory);
    this.base ??= { wall, media: media - this.target * 1000 };
  }

  /** begun reports whether anything has come. */
  get begun(): boolean {
    return this.base !== undefined;
  }

  /** speed is how fast media time goes, compared with the wall's. */
  get speed(): number {
    return this.rate;
  }

  /** now returns the media time to be shown at a wall time. */
  now(wall: number): number {
    if (!this.base) return 0;
    return this.base.media + (wall - this.base.wall) * 1000 * this.rate;
  }

  /** wallOf returns when a media time is to be shown. */
  wallOf(media: number): number {
    if (!this.base) return 0;
    return this.base.wall + (media - this.base.media) / 1000 / this.rate;
  }

  /** latency returns how far the clock is behind the fastest arrivals, in milliseconds. */
  latency(wall: number): number {
    return wall - this.lead() - this.now(wall) / 1000;
  }

  /** adjust brings the clock nearer to its target. It reports whether it has jumped. It is called a few times a second. */
  adjust(wall: number): boolean {
    if (!this.base) return false;
    const error = this.latency(wall) - this.target; // positive: too late
    const at = this.now(wall);
    if (Math.abs(error) > jump) {
      this.base = { wall, media: at + error * 1000 };
      this.rate = 1;
      return true;
    }
    const change = Math.abs(error) < 10 ? 0 : error / 2000; // in two seconds
    this.base = { wall, media: at };
    this.rate = 1 + Math.max(-maxChange, Math.min(maxChange, change));
    return false;
  }

  /** reset forgets everything but the target: a new session's arrivals are other ones. */
  reset(): void {
    this.arrivals = [];
    this.base = undefined;
    this.rate = 1;
  }

  private lead(): number {
    return Math.min(...this.arrivals.map((a) => a.lead));
  }
}
