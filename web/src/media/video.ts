import type { Frame } from "./demux.js";

/** How far ahead frames are decoded, in microseconds: a decoder has room for few pictures. */
const ahead = 250_000;
const maxDecoded = 8;
/** A frame that is later than this is not decoded if a key frame follows, in microseconds. */
const late = 1_000_000;

/** How late a picture may be shown, in microseconds: a browser that is busy draws less often than the display does. */
const tooLate = 200_000;

/** VideoDecoding decodes the frames of one rendition. */
export class VideoDecoding {
  private readonly decoder: VideoDecoder;
  private queue: Frame[] = [];
  private needsKey = true;
  private end = Infinity;
  /** overrun counts frames that were left out because the decoder was busy with earlier ones. */
  overrun = 0;

  constructor(
    config: VideoDecoderConfig,
    private readonly show: (picture: VideoFrame) => void,
    private readonly room: () => number, // how many pictures may still be made
    failed: (error: Error) => void,
  ) {
    this.decoder = new VideoDecoder({ output: (picture) => this.show(picture), error: failed });
    this.decoder.configure(config);
  }

  push(frame: Frame): void {
    if (frame.time < this.end) this.queue.push(frame);
  }

  /** endAt tells that another rendition has the frames from a time on. */
  endAt(time: number): void {
    this.end = time;
    this.queue = this.queue.filter((f) => f.time < time);
  }

  /** advance decodes what is due soon. It returns how many frames it has left out. */
  advance(now: number): number {
    let skipped = 0;
    const key = this.queue.findLastIndex((f) => f.key && f.time <= now);
    if (key > 0 && this.queue[0]!.time < now - late) {
      skipped = key;
      if (this.decoder.decodeQueueSize >= maxDecoded) this.overrun += key;
      this.queue = this.queue.slice(key);
    }
    while (this.queue.length > 0 && this.decoder.state === "configured") {
      const frame = this.queue[0]!;
      if (frame.time > now + ahead || this.decoder.decodeQueueSize >= maxDecoded || this.room() <= 0) break;
      this.queue.shift();
      if (this.needsKey && !frame.key) continue;
      this.needsKey = false;
      this.decoder.decode(
        new EncodedVideoChunk({
          type: frame.key ? "key" : "delta",
          timestamp: frame.time,
          duration: frame.duration,
          data: frame.data,
        }),
      );
    }
    return skipped;
  }

  close(): void {
    this.queue = [];
    if (this.decoder.state !== "closed") this.decoder.close();
  }
}

/** Screen shows pictures when the clock says so. */
export class Screen {
  private pictures: VideoFrame[] = [];
  private readonly context: CanvasRenderingContext2D;
  /** shown and dropped count pictures; dropped ones came too late, or another one was due before they were shown. */
  shown = 0;
  dropped = 0;
  private began = false;
  private latest = -Infinity;

  constructor(private readonly canvas: HTMLCanvasElement) {
    this.context = canvas.getContext("2d", { alpha: false, desynchronized: true })!;
  }

  /** shows reports whether a picture of this time, or a later one, has been shown. */
  shows(time: number): boolean {
    return this.latest >= time;
  }

  get room(): number {
    return maxDecoded - this.pictures.length;
  }

  add(picture: VideoFrame): void {
    const at = this.pictures.findIndex((p) => p.timestamp > picture.timestamp);
    if (at < 0) this.pictures.push(picture);
    else this.pictures.splice(at, 0, picture);
  }

  /** draw shows the next picture that is due. One is left out only if the following one is late already. */
  draw(now: number): void {
    while (this.pictures.length > 1 && this.pictures[1]!.timestamp < now - tooLate) {
      this.pictures.shift()!.close();
      if (this.began) this.dropped++; // else it leads from the key frame to the present
    }
    const due = this.pictures[0] && this.pictures[0].timestamp <= now ? this.pictures.shift() : undefined;
    if (!due) return;
    if (this.canvas.width !== due.displayWidth || this.canvas.height !== due.displayHeight) {
      this.canvas.width = due.displayWidth;
      this.canvas.height = due.displayHeight;
    }
    this.context.drawImage(due, 0, 0, this.canvas.width, this.canvas.height);
    due.close();
    this.shown++;
    this.latest = due.timestamp;
    if (due.timestamp >= now - tooLate) this.began = true;
  }

  /** catchUp tells that the clock has jumped: the pictures up to the present are not dropped ones. */
  catchUp(): void {
    this.began = false;
  }

  /** forget drops the pictures from a time on: another rendition has them. */
  forget(from = -Infinity): void {
    for (const p of this.pictures) if (p.timestamp >= from) p.close();
    this.pictures = this.pictures.filter((p) => p.timestamp < from);
    if (from > -Infinity) return;
    this.catchUp();
    this.latest = -Infinity;
  }
}
