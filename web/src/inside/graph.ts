// Graphs, drawn by uPlot in the colours of the page.

import uPlot from "uplot";
import { make } from "../ui/dom.js";

/** Line is one line, or one row of bars, of a graph. */
export interface Line {
  label: string;
  color: string;
}

/** Options say how a graph looks. */
export interface Options {
  title: string;
  lines: Line[];
  value: (n: number) => string; // writes a value
  bars?: string; // what x is, if not time: then values are drawn as bars
  place?: (x: number) => string; // writes such a position
  max?: number; // of the values
}

/** colors are told apart on a light and on a dark ground, and by those who do not see some of them. */
export const colors = ["#2a8fc4", "#e08214", "#7b3fa0", "#3d9a50", "#c2375b", "#7f7f7f"];

const height = 190;

const clock = (seconds: number) => new Date(1000 * seconds).toLocaleTimeString([], { hour12: false });

/** Graph is a graph with its title and legend. */
export class Graph {
  readonly element: HTMLElement;
  private readonly box = make("div", { role: "img" });
  private plot: uPlot | undefined;
  private data: uPlot.AlignedData;
  private width = 0;

  constructor(private options: Options) {
    this.element = make("figure", { class: "graph" }, make("figcaption", {}, options.title), this.box);
    this.data = [[], ...options.lines.map(() => [])];
    new ResizeObserver(() => this.resize()).observe(this.element);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
  }

  /** draw shows values; the first list is x. summary tells them to those who cannot see the graph. */
  draw(data: uPlot.AlignedData, summary: string): void {
    this.data = data;
    this.box.setAttribute("aria-label", `${this.options.title}: ${summary}`);
    if (this.plot) this.plot.setData(data);
    else this.redraw();
  }

  /** setLines replaces the lines. */
  setLines(lines: Line[]): void {
    if (lines.map((l) => l.label).join() === this.options.lines.map((l) => l.label).join()) return;
    this.options = { ...this.options, lines };
    this.plot?.destroy();
    this.plot = undefined;
  }

  private resize(): void {
    const width = this.box.clientWidth;
    if (width === this.width || width === 0) return;
    this.width = width;
    this.plot?.setSize({ width, height });
  }

  private redraw(): void {
    this.plot?.destroy();
    this.width = this.box.clientWidth;
    if (this.width > 0) this.plot = new uPlot(this.settings(), this.data, this.box);
  }

  private settings(): uPlot.Options {
    const { value, bars, place, max, lines } = this.options;
    const style = getComputedStyle(document.documentElement);
    const soft = style.getPropertyValue("--soft").trim();
    const axis = { stroke: soft, grid: { stroke: style.getPropertyValue("--line").trim(), width: 1 } };
    return {
      width: this.width,
      height,
      scales: {
        x: { time: !bars, range: (_, from, to) => (bars ? [from - 0.5, to + 0.5] : [from, Math.max(to, from + 60)]) },
        y: { range: (_, __, top) => [0, max ?? Math.max(top * 1.1, 1)] },
      },
      axes: [
        { ...axis, space: bars ? 130 : 80, values: (_, at) => at.map(bars ? (x) => place?.(x) ?? "" : clock) },
        { ...axis, size: 88, values: (_, at) => at.map(value) },
      ],
      series: [
        { label: bars ?? "time", value: (_, x) => (x === null ? "–" : bars ? place?.(x) ?? "" : clock(x)) },
        ...lines.map((line, i): uPlot.Series => ({
          label: line.label,
          stroke: line.color,
          width: 2,
          spanGaps: false,
          points: { show: false },
          value: (_, n) => (n === null ? "–" : value(n)),
          ...(bars && {
            fill: line.color,
            width: 0,
            paths: uPlot.paths.bars!({ size: [0.45, 40], align: i % 2 === 0 ? -1 : 1 }),
          }),
        })),
      ],
    };
  }
}
