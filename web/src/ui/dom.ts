// Small helpers to make and find elements.

type Child = Node | string;

/** make makes an element with attributes and children. */
export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, string | boolean> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false) continue;
    e.setAttribute(name, value === true ? "" : value);
  }
  e.append(...children);
  return e;
}

/** find returns the element of the page with an id. */
export function find<T extends HTMLElement>(id: string): T {
  const e = document.getElementById(id);
  if (!e) throw new Error(`the page has no element ${id}`);
  return e as T;
}

/** inView reports whether a user sees some of what has these edges, in a window of that height. */
export const inView = (e: { top: number; bottom: number }, height: number): boolean => e.bottom > 0 && e.top < height;

/** messageOf returns what a user reads of an error, as a part of a sentence: browsers end some messages with a stop. */
export function messageOf(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).replace(/\.$/, "");
}

/** sleep resolves after some milliseconds. */
export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** A session that has worked for this time, in milliseconds, was no failure: the pauses begin anew. */
export const proven = 5000;

/** pauses are the milliseconds to wait before each further attempt to connect. */
export function* pauses(): Generator<number, number> {
  for (let ms = 500; ; ms = Math.min(ms * 2, 8000)) yield ms;
}
