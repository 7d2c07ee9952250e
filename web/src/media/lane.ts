import type { Subscription } from "../moqt/session.js";
import type { Audio } from "./audio.js";
import type { Track } from "./catalog.js";
import type { Sequencer } from "./sequencer.js";
import type { VideoDecoding } from "./video.js";

/** Lane is a track that is played, from the request for it on. */
export class Lane {
  subscription: Subscription | undefined; // once the relay has accepted it
  sequencer: Sequencer | undefined; // once it is known how to play the track
  /** What decodes the track, if the player does that. */
  video: VideoDecoding | undefined;
  audio: Audio | undefined;
  closed = false;

  constructor(readonly track: Track) {}

  /** accept keeps the subscription, unless nobody wants it any more. */
  accept(s: Subscription): void {
    if (this.closed) s.cancel();
    else this.subscription = s;
  }

  /** lost counts the groups that were left before their end. */
  get lost(): number {
    return this.sequencer?.lost ?? 0;
  }

  close(): void {
    this.closed = true;
    this.sequencer?.close();
    this.subscription?.cancel();
    this.video?.close();
    this.audio?.close();
  }
}
