import { RequestError, type Session } from "../moqt/session.js";
import type { Namespace } from "../moqt/wire.js";
import { connect, countViewers, nameOf, type Relay } from "../relay.js";
import { inView, make, messageOf, pauses, proven, sleep } from "./dom.js";

const viewersInterval = 5000; // ms

/** LiveList shows the broadcasts that a relay has, and how many watch them. */
export class LiveList {
  private readonly items = new Map<string, { namespace: Namespace; item: HTMLLIElement; count: HTMLElement }>();

  constructor(
    private readonly relay: Relay,
    private readonly list: HTMLUListElement,
    private readonly state: HTMLElement,
    private readonly choose: (name: string) => void,
  ) {
    setInterval(() => void this.count(), viewersInterval);
  }

  /** run keeps the list until the page is left. */
  async run(token?: string): Promise<never> {
    for (let wait = pauses(); ; ) {
      let session: Session | undefined;
      try {
        session = await connect(this.relay.origin, token);
        await this.follow(session);
        const began = performance.now();
        await session.closed;
        if (performance.now() - began >= proven) wait = pauses();
      } catch (error) {
        this.state.textContent = `The relay cannot be reached: ${messageOf(error)}.`;
      }
      session?.close(); // the relay may have ended the request only
      this.items.clear();
      this.list.replaceChildren();
      await sleep(wait.next().value);
    }
  }

  private async follow(session: Session): Promise<void> {
    this.tell();
    try {
      await session.subscribeNamespace([], (ns, there) => this.change(ns, there));
    } catch (error) {
      if (!(error instanceof RequestError)) throw error;
      this.state.textContent = `The relay does not tell what is live: ${error.message}.`;
    }
  }

  /** mark shows which broadcast is played. */
  mark(name: string | undefined): void {
    for (const [n, { item }] of this.items) {
      const link = item.querySelector("a")!;
      if (n === name) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }

  private change(namespace: Namespace, there: boolean): void {
    const name = nameOf(namespace);
    const known = this.items.get(name);
    if (there && !known) this.add(name, namespace);
    if (!there && known) {
      known.item.remove();
      this.items.delete(name);
    }
    this.tell();
  }

  private add(name: string, namespace: Namespace): void {
    const count = make("span", { class: "count" });
    const link = make("a", { href: `?broadcast=${encodeURIComponent(name)}` }, name, count);
    link.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      this.choose(name);
    });
    const item = make("li", {}, link);
    const after = [...this.items].filter(([other]) => other > name).sort(([a], [b]) => (a < b ? -1 : 1))[0];
    this.list.insertBefore(item, after?.[1].item ?? null);
    this.items.set(name, { namespace, item, count });
    void this.ask(namespace, item, count);
  }

  private tell(): void {
    this.state.textContent = this.items.size === 0 ? "Nothing is live now." : "";
  }

  private async count(): Promise<void> {
    if (document.hidden) return;
    for (const { namespace, item, count } of [...this.items.values()]) await this.ask(namespace, item, count);
  }

  /** ask asks how many watch a broadcast, if the user sees it in the list. */
  private async ask(namespace: Namespace, item: HTMLLIElement, count: HTMLElement): Promise<void> {
    if (!inView(item.getBoundingClientRect(), innerHeight)) return;
    const n = await countViewers(this.relay, namespace);
    count.textContent = n === undefined ? "" : n === 1 ? "1 viewer" : `${n} viewers`;
  }
}
