import type { MediaObject } from "../moqt/session.js";

/** The status of an object that says that its group has none with this or a larger id. */
export const endOfGroup = 3;

/** How long to wait for a missing object before the next group begins, in milliseconds. */
const patience = 150;

/**
 * Sequencer puts the objects of a track in order. Those of a fetch and of a subscription come at the same time, those of
 * several subgroups on streams of their own. It begins with the first object of a group, and leaves a group with a gap
 * when the next one is there and has waited.
 */
export class Sequencer {
  private readonly groups = new Map<number, Map<number, MediaObject>>();
  private readonly ends = new Map<number, number>(); // the number of objects of a group, if it is known
  private group = -1; // the current one
  private object = 0; // the next one of it
  private timer: ReturnType<typeof setTimeout> | undefined;
  /** lost counts the groups that were left before their end. */
  lost = 0;

  constructor(private readonly release: (o: MediaObject) => void) {}

  push(o: MediaObject): void {
    if (o.group < this.group || (o.group === this.group && o.object < this.object)) return;
    if (o.status === endOfGroup) this.ends.set(o.group, o.object);
    if (o.status === 0) {
      const objects = this.groups.get(o.group) ?? new Map<number, MediaObject>();
      this.groups.set(o.group, objects);
      objects.set(o.object, o);
    }
    this.drain();
  }

  close(): void {
    clearTimeout(this.timer);
    this.groups.clear();
  }

  private drain(): void {
    if (this.group < 0 && !this.advance()) return;
    for (;;) {
      const objects = this.groups.get(this.group);
      const next = objects?.get(this.object);
      if (next) {
        objects!.delete(this.object++);
        this.release(next);
        continue;
      }
      if (this.object === this.ends.get(this.group) && this.advance()) continue;
      break;
    }
    if (this.timer === undefined && this.newest() !== undefined) {
      this.timer = setTimeout(() => this.giveUp(), patience);
    }
  }

  /** giveUp leaves the current group, if a newer one has waited long enough. */
  private giveUp(): void {
    this.timer = undefined;
    if (this.newest() === undefined) return;
    this.lost++;
    this.advance();
    this.drain();
  }

  /** newest returns the newest group that can be begun. */
  private newest(): number | undefined {
    const begun = [...this.groups].filter(([id, objects]) => id > this.group && objects.has(0));
    return begun.length > 0 ? Math.max(...begun.map(([id]) => id)) : undefined;
  }

  /** advance goes to the next group: the one that follows, or else the newest. */
  private advance(): boolean {
    const follows = this.group >= 0 && this.groups.get(this.group + 1)?.has(0) ? this.group + 1 : undefined;
    const to = follows ?? this.newest();
    if (to === undefined) return false;
    this.group = to;
    this.object = 0;
    for (const id of this.groups.keys()) if (id < to) this.groups.delete(id);
    for (const id of this.ends.keys()) if (id < to) this.ends.delete(id);
    clearTimeout(this.timer);
    this.timer = undefined;
    return true;
  }
}
