// What the page shows of the snapshots that come.

import { find, make } from "../ui/dom.js";
import { colors, Graph } from "./graph.js";
import { grown, largest, quantile, ratesOf, secondsBetween, smallest } from "./rates.js";
import type { Delays, Detail, Snapshot, Track } from "./snapshot.js";
import { fillGuests, fillRelays, fillSubscribers, fillTracks, nameOf } from "./tables.js";
import { bits, bytes, percent, time } from "./text.js";

const points = 300; // of a graph: five minutes
const recent = 60; // snapshots over which delays are counted
const reasons = 5; // that are drawn

/** History is the last values of some lines, over time. */
class History {
  private readonly times: number[] = [];
  private readonly of = new Map<string, (number | null)[]>();

  add(at: number, values: Record<string, number | null>): void {
    this.times.push(at);
    for (const name of Object.keys(values)) {
      if (!this.of.has(name)) this.of.set(name, Array<null>(this.times.length - 1).fill(null));
    }
    for (const [name, list] of this.of) list.push(values[name] ?? null);
    if (this.times.length > points) {
      this.times.shift();
      for (const list of this.of.values()) list.shift();
    }
  }

  /** lines returns x and the values of lines. */
  lines(names: string[]): [number[], ...(number | null)[][]] {
    return [this.times, ...names.map((n) => this.of.get(n) ?? this.times.map(() => null))];
  }

  /** sums returns the sum of each line's values. */
  sums(): Record<string, number> {
    return Object.fromEntries([...this.of].map(([n, list]) => [n, list.reduce<number>((s, v) => s + (v ?? 0), 0)]));
  }
}

const line = (label: string, i: number) => ({ label, color: colors[i % colors.length]! });
const perSecond = (n: number) => `${n < 10 ? n.toFixed(1) : n.toFixed(0)} /s`;

/** View draws snapshots. */
export class View {
  private readonly history = new History();
  private readonly declined = new History();
  private readonly delays: Delays[] = [];
  private last: Snapshot | undefined;
  private chosen: Track | undefined;
  private detail: { at: string; of: Detail } | undefined;

  private readonly bits = new Graph({ title: "Bits", lines: [line("in", 0), line("out", 1)], value: bits });
  private readonly counts = new Graph({
    title: "Sessions", lines: [line("sessions", 0), line("viewers", 1), line("tracks", 2)], value: (n) => n.toFixed(0),
  });
  private readonly share = new Graph({
    title: "Packets that the kernel sends", lines: [line("share", 3)], value: (n) => percent(n), max: 100,
  });
  private readonly declines = new Graph({
    title: "Copies that the kernel declines", lines: [], value: perSecond,
  });
  private readonly rtt = new Graph({
    title: "RTT of each", lines: [line("RTT", 0)], value: (n) => (n === 0 ? "0" : time(n)), bars: "subscriber", place: (i) => this.peerAt(i),
  });
  private readonly window = new Graph({
    title: "Congestion window of each", lines: [line("window", 3)], value: bytes, bars: "subscriber",
    place: (i) => this.peerAt(i),
  });
  private readonly histogram = new Graph({
    title: "Added delay, last minute", lines: [line("kernel", 0), line("process", 1)], value: (n) => n.toFixed(0),
    bars: "delay", place: (x) => time(2 ** x),
  });

  /** choose is called when a user chooses a track. */
  constructor(private readonly choose: (track: number) => void) {
    const all = [this.bits, this.counts, this.share, this.declines, this.histogram];
    find("graphs").append(...all.map((g) => g.element));
    find("paths").append(this.rtt.element, this.window.element);
  }

  /** show draws a snapshot. */
  show(now: Snapshot): void {
    const before = this.last;
    this.last = now;
    fillTracks(find("tracks"), before, now, this.chosen?.id, (t) => this.pick(t));
    find("others").hidden = !fillGuests(find("guests"), before, now);
    find("links").hidden = !fillRelays(find("relays"), now);
    this.delays.push(now.delays);
    if (this.delays.length > recent + 1) this.delays.shift();
    const tracks = now.tracks.length + now.more.tracks;
    if (!before) return; // there are no rates yet
    const rates = ratesOf(before, now);
    const at = Date.parse(now.time) / 1000;
    this.history.add(at, {
      in: rates.inBits, out: rates.outBits, sessions: now.sessions, viewers: now.viewers, tracks, share: rates.share,
    });
    this.declined.add(at, rates.declined);
    this.bits.draw(this.history.lines(["in", "out"]), `in ${bits(rates.inBits)}, out ${bits(rates.outBits)}`);
    this.counts.draw(this.history.lines(["sessions", "viewers", "tracks"]),
      `${now.sessions} sessions, ${now.viewers} viewers, ${tracks} tracks`);
    this.share.draw(this.history.lines(["share"]), percent(rates.share));
    this.showDeclines();
    const delays = this.showDelays();
    this.showNumbers([
      ["sessions", `${now.sessions}`], ["publishers", `${now.publishers}`], ["viewers", `${now.viewers}`],
      ["tracks", `${tracks}`], ["in", bits(rates.inBits)], ["out", bits(rates.outBits)],
      ["by the kernel", percent(rates.share)], ...delays,
    ]);
  }

  private showDeclines(): void {
    const names = largest(this.declined.sums(), reasons).filter(([, n]) => n > 0).map(([name]) => name);
    this.declines.setLines(names.map(line));
    this.declines.draw(this.declined.lines(names), names.length ? `mostly ${names.join(", ")}` : "none");
  }

  /** showDelays draws the histogram, and returns its quantiles. */
  private showDelays(): [string, string][] {
    const first = this.delays[0]!;
    const last = this.delays[this.delays.length - 1]!;
    const kernel = grown(first.kernel, last.kernel);
    const process = grown(first.process, last.process);
    const used = last.starts_ns.map((_, i) => i).filter((i) => kernel[i]! + process[i]! > 0);
    const from = Math.max((used[0] ?? 20) - 2, 1);
    const to = Math.min((used[used.length - 1] ?? 40) + 3, last.starts_ns.length);
    const x = last.starts_ns.slice(from, to).map((ns) => Math.log2(ns));
    const texts: [string, string][] = [["kernel", kernel] as const, ["process", process] as const].map(([by, bins]) => [
      `delay, ${by}, p50 / p99`,
      `${time(quantile(last.starts_ns, bins, 0.5))} / ${time(quantile(last.starts_ns, bins, 0.99))}`,
    ]);
    this.histogram.draw([x, kernel.slice(from, to), process.slice(from, to)], texts.flat().join(", "));
    return texts;
  }

  private showNumbers(numbers: [string, string][]): void {
    find("numbers").replaceChildren(
      ...numbers.map(([name, value]) =>
        make("div", { class: value.includes("/ ") ? "wide" : "" }, make("dt", {}, name), make("dd", {}, value))),
    );
  }

  private pick(track: Track): void {
    this.chosen = track;
    this.detail = undefined;
    find("detail").hidden = false;
    find("detail-title").textContent = `Subscribers of ${nameOf(track)}`;
    this.choose(track.id);
  }

  /** showTrack shows the subscribers of the chosen track. */
  showTrack(now: Detail): void {
    if (now.id !== this.chosen?.id || !this.last) return;
    const at = this.last.time;
    const seconds = this.detail ? secondsBetween({ time: this.detail.at }, { time: at }) : 1;
    fillSubscribers(find("subscribers"), this.detail?.of, now, seconds);
    this.detail = { at, of: now };
    const x = now.subscribers.map((_, i) => i);
    const rtt = now.subscribers.map((s) => s.srtt_ns);
    this.rtt.draw([x, rtt], `largest ${time(Math.max(0, ...rtt))}`);
    const windows = now.subscribers.map((s) => s.window_bytes);
    this.window.draw([x, windows], `smallest ${bytes(smallest(windows))}`);
  }

  private peerAt(i: number): string {
    return this.detail?.of.subscribers[i]?.remote ?? "";
  }
}
