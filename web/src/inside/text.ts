// How numbers, and what has several parts, are written.

import type { Subscriber } from "./snapshot.js";

/** bits writes bits per second. */
export function bits(n: number): string {
  if (n >= 1e9) return `${(n / 1e9).toFixed(2)} Gbit/s`;
  if (n >= 1e6) return `${(n / 1e6).toFixed(n < 1e8 ? 1 : 0)} Mbit/s`;
  return `${(n / 1e3).toFixed(0)} kbit/s`;
}

/** bytes writes a size. */
export function bytes(n: number | null): string {
  if (n === null) return "–";
  return n >= 1e6 ? `${(n / 1e6).toFixed(1)} MB` : `${(n / 1e3).toFixed(0)} kB`;
}

/** time writes nanoseconds. */
export function time(ns: number | null | undefined): string {
  if (!ns) return "–";
  if (ns >= 1e9) return `${(ns / 1e9).toFixed(1)} s`;
  if (ns >= 1e7) return `${(ns / 1e6).toFixed(0)} ms`;
  if (ns >= 1e6) return `${(ns / 1e6).toFixed(1)} ms`;
  return `${(ns / 1e3).toFixed(0)} µs`;
}

/** percent writes a share. */
export const percent = (n: number | null): string => (n === null ? "–" : `${n.toFixed(n > 99 && n < 100 ? 1 : 0)} %`);

/** renditionText says which rendition the relay serves, and why it did not serve another one before. */
export function renditionText(r: Subscriber["rendition"]): string {
  if (!r) return "–";
  const served = `${r.track || "none yet"}, one of ${r.renditions}`;
  return r.switches > 0 ? `${served}, switches: ${r.switches}, the last one: ${r.reason}` : served;
}
