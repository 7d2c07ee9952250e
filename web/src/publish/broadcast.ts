import { msfCatalog, type Track } from "../media/catalog.js";
import { Dialer } from "../moqt/dialer.js";
import { type IncomingRequest, RequestCode, type Session } from "../moqt/session.js";
import type { Namespace } from "../moqt/wire.js";
import { messageOf, pauses, proven, sleep } from "../ui/dom.js";
import { PublishedTrack } from "./track.js";

const catalogPriority = 16;

/** Broadcast publishes tracks in a namespace, on one session after another. */
export class Broadcast {
  private readonly dialer: Dialer;
  readonly tracks = new Map<string, PublishedTrack>();
  private readonly catalog = new PublishedTrack("catalog", () => this.writeCatalog());
  private catalogGroup = Date.now();
  private entries: Track[] = [];
  private ready!: () => void;
  private readonly described = new Promise<void>((resolve) => (this.ready = resolve));
  private session: Session | undefined;
  private stopped = false;

  constructor(
    private readonly namespace: Namespace,
    connect: (url?: string) => Promise<Session>, // to a URL, or to the page's relay
    private readonly tell: (state: string, live: boolean) => void,
  ) {
    this.dialer = new Dialer(connect);
    this.tracks.set(this.catalog.name, this.catalog);
  }

  /** track adds a track. */
  track(name: string): PublishedTrack {
    const t = new PublishedTrack(name);
    this.tracks.set(name, t);
    return t;
  }

  /** describe sets what the catalog says. */
  describe(entries: Track[]): void {
    this.entries = entries;
    this.writeCatalog();
    this.ready();
  }

  private writeCatalog(): void {
    if (this.entries.length === 0) return;
    const text = new TextEncoder().encode(msfCatalog(this.entries));
    this.catalog.add(this.catalogGroup++, 0, catalogPriority, text);
  }

  /** run publishes until stop is called. It announces a broadcast that has a catalog: viewers do not wait long for one. */
  async run(): Promise<void> {
    this.tell("Starting…", false);
    await this.described;
    for (let wait = pauses(); !this.stopped; ) {
      try {
        const session = await this.dialer.dial();
        if (this.stopped) return session.close();
        this.session = session;
        session.serve = (r) => void this.serve(r).catch(() => {}); // the request is over
        const { ended } = await session.publishNamespace(this.namespace);
        const began = performance.now();
        if (!this.stopped) this.tell("Live.", true);
        const reason = await Promise.race([session.closed, ended]);
        if (performance.now() - began >= proven) wait = pauses();
        session.close(); // the relay may have ended the announcement only
        if (!this.stopped) this.tell(`Not live: ${reason}. Connecting again…`, false);
      } catch (error) {
        this.session?.close();
        if (!this.stopped) this.tell(`Not live: ${messageOf(error)}. Trying again…`, false);
      }
      if (!this.stopped && !this.dialer.moved) await sleep(wait.next().value);
    }
  }

  stop(): void {
    this.stopped = true;
    this.ready();
    this.dialer.stop();
    this.session?.close();
    this.tell("", false);
  }

  private async serve(r: IncomingRequest): Promise<void> {
    const same = r.track.namespace.join("\0") === this.namespace.join("\0");
    const track = same ? this.tracks.get(r.track.name) : undefined;
    if (!track) return r.stream.refuse(RequestCode.DoesNotExist, "there is no such track");
    await track.serve(r);
  }
}
