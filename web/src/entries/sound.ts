// The audio worklet of /publish, for browsers that hand no sound to pages otherwise: it hands over what it hears.

import type { Sound } from "../publish/frames.js";

declare const currentFrame: number;
declare class AudioWorkletProcessor {
  readonly port: MessagePort;
}
declare function registerProcessor(name: string, type: new () => AudioWorkletProcessor): void;

/** How many blocks of 128 samples are handed over at once: about 10 ms. */
const blocks = 4;

class SoundProcessor extends AudioWorkletProcessor {
  private readonly heard: Float32Array[][] = []; // the channels of each block

  process([input]: Float32Array[][]): boolean {
    if (!input || input.length === 0) return true;
    if (this.heard[0] && this.heard[0].length !== input.length) this.heard.length = 0; // mono has become stereo
    this.heard.push(input.map((samples) => samples.slice())); // the browser uses them again
    if (this.heard.length === blocks) this.hand();
    return true;
  }

  private hand(): void {
    const all = this.heard.splice(0);
    const length = all[0]![0]!.length;
    const channels = all[0]!.map((_, channel) => {
      const samples = new Float32Array(blocks * length);
      all.forEach((block, i) => samples.set(block[channel]!, i * length));
      return samples;
    });
    const sound: Sound = { frame: currentFrame - (blocks - 1) * length, channels };
    this.port.postMessage(sound, channels.map((samples) => samples.buffer));
  }
}

registerProcessor("sound", SoundProcessor);
