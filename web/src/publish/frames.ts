// The pictures and the sound of a camera, a screen or a microphone, as a page gets them.

import { sleep } from "../ui/dom.js";

type Frame = VideoFrame | AudioData;

type ProcessorType = new (init: { track: MediaStreamTrack }) => { readable: ReadableStream<Frame> };

/** processor is what makes a stream of a track, in browsers that have it: Chromium and its relatives. */
const processor = () => (globalThis as { MediaStreamTrackProcessor?: ProcessorType }).MediaStreamTrackProcessor;

/** handsFrames reports whether the browser hands frames to pages. Else they are taken from elements. */
export const handsFrames = (): boolean => processor() !== undefined;

/** framesOf returns what a track brings. Who cancels the stream ends that. */
export async function framesOf<T extends Frame>(track: MediaStreamTrack): Promise<ReadableStream<T>> {
  const Processor = processor();
  if (Processor) return new Processor({ track }).readable as ReadableStream<T>;
  return (track.kind === "video" ? picturesOf(track) : await soundOf(track)) as ReadableStream<T>;
}

/** How many pictures, or pieces of sound, may wait. Those beyond are left out. */
const maxWaiting = { video: 2, audio: 50 };

/** How long to wait for sound, in milliseconds. */
const patience = 5000;

/** picturesOf takes the pictures from a video element that plays the track. Browsers draw none while the page is hidden. */
function picturesOf(track: MediaStreamTrack): ReadableStream<VideoFrame> {
  const video = document.createElement("video");
  video.muted = true;
  video.srcObject = new MediaStream([track]);
  let going = true;
  let last = -1; // a browser may show a picture twice
  const start = (out: ReadableStreamDefaultController<VideoFrame>) => {
    const take = (_: number, { mediaTime }: VideoFrameCallbackMetadata) => {
      if (!going) return;
      video.requestVideoFrameCallback(take);
      const timestamp = Math.round(mediaTime * 1e6);
      if (timestamp <= last) return;
      last = timestamp;
      const picture = out.desiredSize! > 0 && pictureOf(video, timestamp);
      if (picture) out.enqueue(picture);
    };
    video.requestVideoFrameCallback(take);
    video.play().catch((error: unknown) => going && out.error(error));
  };
  const cancel = () => {
    going = false;
    video.srcObject = null;
  };
  return new ReadableStream({ start, cancel }, { highWaterMark: maxWaiting.video });
}

/** pictureOf returns what an element shows. Chromium sometimes tells of the first picture before it can be taken. */
function pictureOf(video: HTMLVideoElement, timestamp: number): VideoFrame | undefined {
  try {
    return new VideoFrame(video, { timestamp });
  } catch (error) {
    if (error instanceof DOMException && error.name === "InvalidStateError") return undefined;
    throw error;
  }
}

/** Sound is what the audio worklet hands over: as many samples for each channel. */
export interface Sound {
  frame: number; // the number of the first sample
  channels: Float32Array<ArrayBuffer>[];
}

/** soundOf takes the sound from an audio worklet. */
async function soundOf(track: MediaStreamTrack): Promise<ReadableStream<AudioData>> {
  const context = new AudioContext();
  await context.audioWorklet.addModule(new URL("sound.js", import.meta.url));
  const node = new AudioWorkletNode(context, "sound");
  context.createMediaStreamSource(new MediaStream([track])).connect(node).connect(context.destination); // it is silent
  await begun(context);
  const start = (out: ReadableStreamDefaultController<AudioData>) => {
    node.port.onmessage = ({ data }: MessageEvent<Sound>) => {
      if (out.desiredSize! > 0) out.enqueue(audioOf(data, context.sampleRate));
    };
  };
  const cancel = () => {
    node.port.onmessage = null;
    return context.close();
  };
  return new ReadableStream({ start, cancel }, { highWaterMark: maxWaiting.audio });
}

/** begun waits until a context hears, which needs a device that plays sound. */
async function begun(context: AudioContext): Promise<void> {
  await Promise.race([context.resume(), sleep(patience)]);
  if (context.state === "running") return;
  void context.close();
  throw new Error("this browser takes no sound while it has no device to play it; publish without sound");
}

/** audioOf makes what encoders take. */
export function audioOf({ frame, channels }: Sound, sampleRate: number): AudioData {
  const numberOfFrames = channels[0]!.length;
  const data = new Float32Array(channels.length * numberOfFrames);
  channels.forEach((samples, i) => data.set(samples, i * numberOfFrames));
  return new AudioData({
    format: "f32-planar",
    numberOfChannels: channels.length,
    numberOfFrames,
    sampleRate,
    timestamp: Math.round((frame / sampleRate) * 1e6),
    data,
  });
}
