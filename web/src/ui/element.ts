import { Player } from "../media/player.js";
import type { Track } from "../media/catalog.js";
import { connect, namespaceOf } from "../relay.js";
import { make, messageOf } from "./dom.js";

const style = `
[hidden] { display: none !important; }
:host { display: block; color: inherit; font: inherit; }
.frame { position: relative; background: #000; border-radius: 0.5rem; overflow: hidden; aspect-ratio: 16 / 9; }
canvas, video { display: block; width: 100%; height: 100%; object-fit: contain; }
.state {
  position: absolute; inset: auto 0 0 0; margin: 0; padding: 0.6rem 0.8rem;
  background: rgb(0 0 0 / 0.75); color: #fff;
}
.state:empty { display: none; }
.bar { display: flex; flex-wrap: wrap; align-items: center; gap: 0.5rem 0.75rem; padding: 0.5rem 0; }
button, select, input { font: inherit; }
button, select {
  min-height: 2.5rem; padding: 0.3rem 0.8rem; border: 1px solid var(--line, #8899a0); border-radius: 0.4rem;
  background: var(--panel, Canvas); color: var(--text, CanvasText); cursor: pointer;
}
button:hover { border-color: var(--accent, Highlight); }
:focus-visible { outline: 3px solid var(--accent, Highlight); outline-offset: 2px; }
label { display: inline-flex; align-items: center; gap: 0.4rem; }
input[type=range] { width: 6rem; accent-color: var(--accent, auto); }
.numbers { margin: 0; color: var(--soft, inherit); font-size: 0.85rem; font-variant-numeric: tabular-nums; }
:host([plain]) .numbers { padding: 0 0.5rem 0.5rem; }
:host([plain]) .bar { padding: 0.5rem; }
`;

/** The latencies that a viewer can choose, in milliseconds. */
const targets = [100, 200, 400, 1000, 3000];
const defaultTarget = 200;
const numbersInterval = 500;

/**
 * PlayerElement is <sluice-player>: it plays a broadcast, and has controls.
 *
 *   broadcast  the fields of its namespace, joined by "/"
 *   relay      the origin of the relay; default: the one that the script comes from
 *   token      an authorization token
 *   latency    the target, in milliseconds
 */
export class PlayerElement extends HTMLElement {
  static readonly observedAttributes = ["broadcast", "relay", "token", "latency"];

  /** player is what plays now, for statistics. */
  player: Player | undefined;
  private readonly canvas = make("canvas", { role: "img", width: "640", height: "360" });
  private readonly video = make("video", { playsinline: true, hidden: true });
  private readonly state = make("p", { class: "state", role: "status" });
  private readonly numbers = make("p", { class: "numbers" });
  private readonly play = make("button", { type: "button" }, "Pause");
  private readonly mute = make("button", { type: "button", "aria-pressed": "true" }, "Unmute");
  private readonly volume = make("input", { type: "range", min: "0", max: "1", step: "0.05", value: "1" });
  private readonly automatic = make("option", { value: "" }, "Auto");
  private readonly quality = make("select", {}, this.automatic);
  private readonly latency = make("select");
  private readonly full = make("button", { type: "button" }, "Full screen");
  private readonly qualityLabel = make("label", { hidden: true }, "Quality", this.quality);
  private muted = true;
  private paused = false;
  private timer: ReturnType<typeof setInterval> | undefined;

  constructor() {
    super();
    const root = this.attachShadow({ mode: "open" });
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(style);
    root.adoptedStyleSheets = [sheet];
    const frame = make("div", { class: "frame" }, this.canvas, this.video, this.state);
    const bar = make(
      "div",
      { class: "bar", role: "group", "aria-label": "Player" },
      this.play,
      this.mute,
      make("label", {}, "Volume", this.volume),
      this.qualityLabel,
      make("label", {}, "Latency", this.latency),
      this.full,
    );
    root.append(frame, bar, this.numbers);
    for (const ms of targets) this.latency.append(make("option", { value: `${ms}` }, `${ms} ms`));
    this.play.addEventListener("click", () => this.toggle());
    this.mute.addEventListener("click", () => void this.setMuted(!this.muted));
    this.volume.addEventListener("input", () => this.applyVolume());
    this.quality.addEventListener("change", () => void this.choose());
    this.latency.addEventListener("change", () => {
      if (this.player) this.player.target = Number(this.latency.value);
    });
    this.full.addEventListener("click", () => void this.requestFullscreen().catch(() => {}));
    this.addEventListener("keydown", (e) => this.key(e));
  }

  connectedCallback(): void {
    this.setTarget();
    this.timer = setInterval(() => this.showNumbers(), numbersInterval);
    this.start();
  }

  disconnectedCallback(): void {
    clearInterval(this.timer);
    this.end();
  }

  attributeChangedCallback(name: string): void {
    if (!this.isConnected) return;
    if (name === "latency") return this.setTarget();
    this.end();
    this.start();
  }

  private start(): void {
    const name = this.getAttribute("broadcast");
    if (!name || this.paused) return;
    for (const screen of [this.canvas, this.video]) screen.setAttribute("aria-label", `Video of ${name}`);
    this.begin(name).catch((error: unknown) => (this.state.textContent = messageOf(error)));
  }

  private async begin(name: string): Promise<void> {
    const codecs = typeof VideoDecoder !== "undefined" && typeof AudioDecoder !== "undefined";
    this.canvas.hidden = !codecs;
    this.video.hidden = codecs;
    this.state.textContent = "Connecting…";
    const player = new Player({
      connect: (url) => {
        const relay = this.getAttribute("relay") ?? new URL(import.meta.url).origin;
        return connect(relay, this.getAttribute("token") ?? undefined, url);
      },
      namespace: namespaceOf(name),
      canvas: this.canvas,
      video: this.video,
      target: Number(this.latency.value),
      tell: (state) => (this.state.textContent = state),
      rendition: this.quality.value || undefined,
      found: (renditions) => this.showQualities(renditions),
      plays: (rendition) => (this.automatic.textContent = `Auto: ${qualityOf(rendition)}`),
    });
    this.player = player;
    this.applyVolume();
    if (!this.muted) void player.unmute();
    await player.run();
  }

  private end(): void {
    this.player?.stop();
    this.player = undefined;
  }

  private toggle(): void {
    this.paused = !this.paused;
    this.play.textContent = this.paused ? "Play" : "Pause";
    if (this.paused) this.end();
    else this.start();
  }

  private async setMuted(muted: boolean): Promise<void> {
    this.muted = muted;
    this.applyVolume();
    if (!muted && !(await this.player?.unmute())) this.muted = true;
    this.mute.textContent = this.muted ? "Unmute" : "Mute";
    this.mute.setAttribute("aria-pressed", `${this.muted}`);
  }

  private setTarget(): void {
    const wanted = Math.max(0, Number(this.getAttribute("latency"))) || defaultTarget;
    const listed = [...this.latency.options].some((o) => o.value === `${wanted}`);
    if (!listed) this.latency.prepend(make("option", { value: `${wanted}` }, `${wanted} ms`));
    this.latency.value = `${wanted}`;
    if (this.player) this.player.target = wanted;
  }

  private applyVolume(): void {
    if (this.player) this.player.volume = this.muted ? 0 : Number(this.volume.value);
  }

  private async choose(): Promise<void> {
    try {
      await this.player?.choose(this.quality.value || undefined);
    } catch (error) {
      this.state.textContent = `The quality cannot be changed: ${messageOf(error)}.`;
    }
  }

  /** showQualities lists the renditions. What the user has chosen stays, if it is there. */
  private showQualities(renditions: Track[]): void {
    const chosen = this.quality.value;
    this.qualityLabel.hidden = renditions.length < 2;
    this.quality.replaceChildren(
      this.automatic,
      ...renditions.map((t) => make("option", { value: t.name, selected: t.name === chosen }, qualityOf(t))),
    );
  }

  private showNumbers(): void {
    const s = this.player?.statistics();
    if (!s || s.shown === 0) {
      this.numbers.textContent = "";
      return;
    }
    const parts = [
      s.endToEnd === undefined
        ? `${Math.round(s.latency)} ms behind arrival (target ${s.target} ms)`
        : `${Math.round(s.endToEnd)} ms behind the camera (buffer ${Math.round(s.latency)} of ${s.target} ms)`,
      `${(s.bitrate / 1e6).toFixed(2)} Mbit/s`,
      `${s.shown} pictures, ${s.dropped} dropped`,
    ];
    this.numbers.textContent = parts.join(" · ");
  }

  private key(e: KeyboardEvent): void {
    const from = e.composedPath()[0];
    if (from instanceof HTMLInputElement || from instanceof HTMLSelectElement || e.ctrlKey || e.metaKey) return;
    if (e.key === "m") void this.setMuted(!this.muted);
    if (e.key === "f") void this.requestFullscreen().catch(() => {});
    if (e.key === "k") this.toggle();
  }
}

function qualityOf(t: Track): string {
  const size = t.height ? `${t.height}p` : t.name;
  if (!t.bitrate) return size;
  if (t.bitrate < 1e6) return `${size}, ${Math.round(t.bitrate / 1e3)} kbit/s`;
  return `${size}, ${(t.bitrate / 1e6).toFixed(1)} Mbit/s`;
}

customElements.define("sluice-player", PlayerElement);
