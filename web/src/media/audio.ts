import type { Clock } from "./clock.js";
import type { Frame } from "./demux.js";

/** How far ahead sound is handed to the device, in seconds. */
const ahead = 0.2;
/** Sound that is this far from where it belongs begins anew there, in seconds. */
const tolerance = 0.04;

/** Audio decodes a track and plays it when the clock says so. */
export class Audio {
  private readonly decoder: AudioDecoder;
  private readonly queue: Frame[] = [];
  private readonly sounds: AudioData[] = [];
  private next: number | undefined; // when the last sound ends, in the context's time
  private readonly playing = new Set<AudioBufferSourceNode>();

  constructor(
    config: AudioDecoderConfig,
    private readonly context: AudioContext,
    private readonly output: AudioNode,
    private readonly clock: Clock,
    failed: (error: Error) => void,
  ) {
    this.decoder = new AudioDecoder({ output: (sound) => this.sounds.push(sound), error: failed });
    this.decoder.configure(config);
  }

  push(frame: Frame): void {
    this.queue.push(frame);
  }

  /** advance decodes and plays what is due soon. */
  advance(now: number): void {
    const limit = now + ahead * 1e6;
    while (this.queue.length > 0 && this.queue[0]!.time < limit && this.decoder.state === "configured") {
      const f = this.queue.shift()!;
      if (f.time + f.duration < now) continue;
      this.decoder.decode(new EncodedAudioChunk({ type: "key", timestamp: f.time, duration: f.duration, data: f.data }));
    }
    for (const sound of this.sounds.splice(0)) {
      if (this.context.state === "running") this.play(sound);
      sound.close();
    }
  }

  private play(sound: AudioData): void {
    const due = this.contextTime(this.clock.wallOf(sound.timestamp));
    let at = this.next !== undefined && Math.abs(this.next - due) < tolerance ? this.next : due;
    const offset = Math.max(0, this.context.currentTime - at);
    const duration = sound.numberOfFrames / sound.sampleRate / this.clock.speed;
    if (offset >= duration) return;
    at += offset;
    const buffer = this.context.createBuffer(sound.numberOfChannels, sound.numberOfFrames, sound.sampleRate);
    for (let i = 0; i < sound.numberOfChannels; i++) {
      const samples = new Float32Array(sound.numberOfFrames);
      sound.copyTo(samples, { planeIndex: i, format: "f32-planar" });
      buffer.copyToChannel(samples, i);
    }
    const source = this.context.createBufferSource();
    source.buffer = buffer;
    source.playbackRate.value = this.clock.speed;
    source.connect(this.output);
    source.onended = () => this.playing.delete(source);
    this.playing.add(source);
    source.start(at, offset * this.clock.speed);
    this.next = at - offset + duration;
  }

  /** contextTime returns the context's time at which a sound has to start to be heard at a wall time. */
  private contextTime(wall: number): number {
    return this.context.currentTime + (wall - performance.now()) / 1000 - (this.context.outputLatency || 0);
  }

  close(): void {
    for (const source of this.playing) source.stop();
    for (const sound of this.sounds) sound.close();
    if (this.decoder.state !== "closed") this.decoder.close();
  }
}
