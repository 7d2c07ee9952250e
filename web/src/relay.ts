// What the page knows of the relay that serves it.

import { Session } from "./moqt/session.js";
import type { Namespace } from "./moqt/wire.js";

/** Relay is a relay, as /relay.json describes it. */
export interface Relay {
  origin: string; // of the page that it serves
  port: number;
  certificate?: string;
  viewers: boolean;
  version: string;
}

/** findRelay asks the relay at an origin about itself. */
export async function findRelay(origin: string = location.origin): Promise<Relay> {
  const response = await fetch(new URL("/relay.json", origin)).catch(() => undefined);
  if (!response?.ok) throw new Error("the relay does not answer");
  return { origin, ...((await response.json()) as Omit<Relay, "origin">) };
}

/** connect opens a session with the relay at an origin, or with another one, to whose URL that has sent the page. It asks
 * for the certificate each time: a relay that was started again may have another one. */
export async function connect(origin: string = location.origin, token?: string, other?: string): Promise<Session> {
  if (typeof WebTransport === "undefined") {
    throw new Error("this browser has no WebTransport, which the relay needs; current ones have it");
  }
  if (other) return Session.connect({ url: other.replace(/^moqt:/, "https:"), ...(token && { token }) });
  const relay = await findRelay(origin);
  const hash = relay.certificate && Uint8Array.from(relay.certificate.match(/../g)!, (hex) => parseInt(hex, 16));
  const url = `https://${new URL(origin).hostname}:${relay.port}/`;
  return Session.connect({ url, ...(hash && { hash }), ...(token && { token }) });
}

/** countViewers returns how many watch a broadcast, or undefined if the relay does not tell. */
export async function countViewers(relay: Relay, namespace: Namespace): Promise<number | undefined> {
  if (!relay.viewers) return undefined;
  const query = new URLSearchParams(namespace.map((field) => ["field", field]));
  const response = await fetch(new URL(`/viewers?${query}`, relay.origin)).catch(() => undefined);
  return response?.ok ? ((await response.json()) as { viewers: number }).viewers : undefined;
}

/** nameOf writes a namespace as a user reads it, and as links have it. */
export function nameOf(namespace: Namespace): string {
  return namespace.map((field) => field.replaceAll("%", "%25").replaceAll("/", "%2F")).join("/");
}

/** namespaceOf is the reverse of nameOf. */
export function namespaceOf(name: string): Namespace {
  return name.split("/").filter(Boolean).map((field) => decodeURIComponent(field));
}
