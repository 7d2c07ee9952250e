import type { Session } from "./session.js";

/** Dialer opens one session after another: with the page's relay, or with the one that a session was sent to. */
export class Dialer {
  private next: Session | undefined;
  private stopped = false;

  /** The function connects to a URL, or to the page's relay. */
  constructor(private readonly connect: (url?: string) => Promise<Session>) {}

  /** moved reports whether another relay waits for the page. */
  get moved(): boolean {
    return this.next !== undefined;
  }

  /** dial returns a session that closes when its relay sends the page away and another session is there. */
  async dial(): Promise<Session> {
    const session = this.next ?? (await this.connect());
    this.next = undefined;
    session.ongoaway = (url) => void this.leave(session, url);
    return session;
  }

  /** leave goes to the relay at a URL. If the page cannot reach that one, it stays until its own relay ends the session,
   * and then connects to that again. */
  private async leave(session: Session, url: string): Promise<void> {
    if (url !== "") {
      const next = await this.connect(url).catch(() => undefined);
      if (!next) return;
      if (this.stopped) return next.close();
      this.next = next;
    }
    session.close();
  }

  /** stop closes the session that waits. */
  stop(): void {
    this.stopped = true;
    this.next?.close();
  }
}
