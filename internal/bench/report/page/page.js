'use strict';
// Draws the charts of the page from its data. The rules of the forms are those of package chart.
(() => {
	const data = JSON.parse(document.getElementById('data').textContent);
	const chartsById = new Map(data.charts.map(c => [c.id, c]));
	const hidden = new Set(); // indexes of systems
	const colours = 8;
	const dashes = ['', '9 3', '3 3', '9 3 3 3'];
	const [width, height] = [960, 400];
	const box = {left: 74, right: 16, top: 12, bottom: 58};
	const plotWidth = width - box.left - box.right;

	function element(parent, name, attributes = {}, text) {
		const e = document.createElementNS('http://www.w3.org/2000/svg', name);
		for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
		if (text !== undefined) e.textContent = text;
		parent.append(e);
		return e;
	}

	function html(parent, name, properties = {}) {
		const e = Object.assign(document.createElement(name), properties);
		parent.append(e);
		return e;
	}

	// Three significant digits, all digits before the decimal point: result.Number.String.
	function format(v) {
		if (v === null) return '–';
		const decimals = v === 0 ? 0 : Math.min(Math.max(2 - Math.floor(Math.log10(Math.abs(v))), 0), 6);
		return String(Number(v.toFixed(decimals)));
	}

	const label = axis => [axis.title, axis.unit].filter(Boolean).join(', ');
	const colour = (chart, t, i) => `var(--c${chart.form === 'stack' ? i % colours : t.system < 0 ? 6 : t.system % colours})`;
	const shown = t => t.system < 0 || !hidden.has(t.system);

	function linearTicks(low, high) {
		const rough = (high - low) / 6;
		const power = 10 ** Math.floor(Math.log10(rough));
		const step = [1, 2, 5, 10].map(f => f * power).find(s => s >= rough) ?? 10 * power;
		const ticks = [];
		for (let i = Math.ceil(low / step - 1e-9); i * step <= high * (1 + 1e-9) + 1e-12; i++) ticks.push({at: i * step, text: format(i * step)});
		return ticks;
	}

	function logTicks(low, high) {
		const few = Math.log10(high / low) < 3;
		const ticks = [];
		for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++)
			for (let d = 1; d < 10; d++) {
				const at = d * 10 ** e;
				if (at >= low * 0.999 && at <= high * 1.001)
					ticks.push({at, text: d === 1 || (few && (d === 2 || d === 5)) ? format(at) : ''});
			}
		return ticks;
	}

	// A scale maps [low, high] to [from, to].
	function scale(low, high, from, to, log) {
		const f = log ? Math.log10 : v => v;
		const [a, b] = [f(low), f(high)];
		const s = v => from + (f(v) - a) / (b - a || 1) * (to - from);
		s.ticks = () => (log ? logTicks : linearTicks)(low, high);
		return s;
	}

	// What is drawn: the points of visible traces, with y as the chosen view of a distribution shows it.
	function visible(chart, view) {
		const stacked = new Map();
		return chart.traces.map((t, i) => ({t, i})).filter(({t}) => shown(t)).map(({t, i}) => {
			const points = [];
			t.x.forEach((x, n) => {
				let y = t.y[n];
				if (x === null || y === null) return;
				if (chart.form === 'cdf' && view.tail) y = 1 - y;
				if ((view.logX && x <= 0) || (view.logY && y <= 0)) return;
				if (chart.form === 'stack' && hidden.has(chart.x.systems[x])) return;
				const base = chart.form === 'stack' ? stacked.get(x) ?? 0 : 0;
				if (chart.form === 'stack') stacked.set(x, base + y);
				points.push({x, y: base + y, base, value: t.y[n], low: t.low?.[n] ?? null, high: t.high?.[n] ?? null});
			});
			return {t, i, points};
		});
	}

	function range(values, log, zero) {
		let low = Infinity, high = -Infinity;
		for (const v of values) {
			if (v === null || (log && v <= 0)) continue;
			low = Math.min(low, v);
			high = Math.max(high, v);
		}
		if (low > high) return log ? [1, 10] : [0, 1];
		if (zero && !log) low = Math.min(low, 0);
		if (log) return low === high ? [low / 2, high * 2] : [low, high];
		return low === high ? [low, low + 1] : [low, high];
	}

	function draw(figure, chart, view) {
		const canvas = figure.querySelector('.canvas');
		canvas.replaceChildren();
		const bars = chart.form === 'bars' || chart.form === 'stack';
		const traces = visible(chart, view);
		const parts = html(canvas, 'div', {className: 'parts'});
		for (const {t, i} of traces) {
			const part = html(parts, 'span');
			html(part, 'span', {className: 'key'}).style.background = colour(chart, t, i);
			part.append(t.name);
		}
		const svg = element(canvas, 'svg', {viewBox: `0 0 ${width} ${height}`, role: 'img', tabindex: 0,
			'aria-label': `${chart.title}, by ${label(chart.x)}, for ${traces.map(({t}) => t.name).join(', ')}`});
		const points = traces.flatMap(({points}) => points);
		const extents = points.flatMap(p => [p.y, ...(bars || chart.form === 'lines' ? [p.low, p.high] : [])]);
		const [lowY, highY] = chart.form === 'cdf' && !view.tail ? [0, 1] : range(extents, view.logY, true);
		const y = scale(lowY, highY + (view.logY || chart.form === 'cdf' ? 0 : (highY - lowY) * 0.04), height - box.bottom, box.top, view.logY);
		const categories = bars ? chart.x.categories.map((text, at) => ({text, at}))
			.filter(({at}) => !chart.x.systems || !hidden.has(chart.x.systems[at])) : [];
		const slot = plotWidth / (categories.length || 1);
		const position = new Map(categories.map(({at}, n) => [at, box.left + slot * (n + 0.5)]));
		const x = bars ? v => position.get(v)
			: scale(...range(points.map(p => p.x), view.logX), box.left, width - box.right, view.logX);
		axes(svg, chart, x, y, bars ? categories.map(c => ({at: c.at, text: c.text})) : x.ticks(), bars, slot);
		const side = chart.form === 'stack' ? 1 : Math.max(traces.length, 1);
		const bar = Math.min(slot * 0.8 / side, 60);
		traces.forEach(({t, i, points}, n) => {
			const offset = bars ? bar * (n - (side - 1) / 2) : 0;
			for (const p of points) [p.px, p.py] = [x(p.x) + (chart.form === 'bars' ? offset : 0), y(p.y)];
			const fill = colour(chart, t, i);
			if (bars) {
				for (const p of points) {
					const bottom = view.logY ? height - box.bottom : y(p.base);
					element(svg, 'rect', {x: p.px - bar / 2 + 0.5, y: p.py, width: Math.max(bar - 1, 1), height: Math.max(bottom - p.py, 0), fill});
				}
			} else if (points.length) {
				const step = chart.form === 'cdf';
				const path = points.map((p, k) => k ? (step ? `H${p.px.toFixed(1)}V${p.py.toFixed(1)}` : `L${p.px.toFixed(1)} ${p.py.toFixed(1)}`)
					: `M${p.px.toFixed(1)} ${p.py.toFixed(1)}`).join('');
				element(svg, 'path', {d: path, fill: 'none', stroke: fill, 'stroke-width': 2.2, 'stroke-linejoin': 'round',
					'stroke-dasharray': t.system < 0 ? dashes[1] : dashes[t.system % dashes.length]});
				if (points.length <= 12) for (const p of points) element(svg, 'circle', {cx: p.px, cy: p.py, r: 3.5, fill});
			}
			for (const p of points) {
				if (p.low === null || p.high === null || p.low === p.high || (view.logY && p.low <= 0)) continue;
				const [top, bottom] = [y(p.high), y(p.low)];
				element(svg, 'path', {class: 'range', d: `M${p.px - 4} ${top}h8M${p.px} ${top}V${bottom}M${p.px - 4} ${bottom}h8`});
			}
		});
		if (!points.length) element(svg, 'text', {x: width / 2, y: height / 2, 'text-anchor': 'middle'}, 'nothing to show: all systems are hidden, or without values on these scales');
		hover(canvas, svg, chart, traces, bars ? categories.map(c => c.at) : null);
	}

	function axes(svg, chart, x, y, ticksX, bars, slot) {
		const base = height - box.bottom;
		for (const t of y.ticks()) {
			element(svg, 'line', {class: 'grid', x1: box.left, x2: width - box.right, y1: y(t.at), y2: y(t.at)});
			if (t.text) element(svg, 'text', {x: box.left - 8, y: y(t.at) + 4, 'text-anchor': 'end'}, t.text);
		}
		const turned = bars && ticksX.some(t => t.text.length * 6.6 > slot);
		for (const t of ticksX) {
			const at = x(t.at);
			if (!bars) element(svg, 'line', {class: 'grid', x1: at, x2: at, y1: box.top, y2: base});
			if (!t.text) continue;
			const short = turned && t.text.length > 24 ? t.text.slice(0, 23) + '…' : t.text;
			const e = element(svg, 'text', turned ? {x: at, y: base + 14, 'text-anchor': 'end', transform: `rotate(-20 ${at} ${base + 14})`}
				: {x: at, y: base + 18, 'text-anchor': 'middle'}, short);
			if (short !== t.text) element(e, 'title', {}, t.text);
		}
		if (!turned) element(svg, 'text', {class: 'unit', x: box.left + plotWidth / 2, y: height - 12, 'text-anchor': 'middle'}, label(chart.x));
		const middle = (box.top + base) / 2;
		element(svg, 'text', {class: 'unit', x: 16, y: middle, 'text-anchor': 'middle', transform: `rotate(-90 16 ${middle})`}, label(chart.y));
	}

	// Shows the values at the pointer; with arrow keys at one position after the other.
	function hover(canvas, svg, chart, traces, categories) {
		const tip = html(canvas, 'div', {className: 'tip', hidden: true});
		tip.setAttribute('role', 'status');
		const cross = element(svg, 'line', {class: 'cross', y1: box.top, y2: height - box.bottom, visibility: 'hidden'});
		const places = [...new Set(traces.flatMap(({points}) => points.map(p => p.x)))].sort((a, b) => a - b);
		let current = -1;
		function hide() {
			tip.hidden = true;
			cross.setAttribute('visibility', 'hidden');
		}
		function show(at, px) {
			tip.replaceChildren();
			html(tip, 'strong', {textContent: categories ? chart.x.categories[at] : `${format(at)} ${chart.x.unit ?? chart.x.title}`});
			for (const {t, i, points} of traces) {
				const p = at === undefined ? undefined : categories ? points.find(p => p.x === at) : points.findLast(p => p.x <= at + 1e-12);
				if (!p) continue;
				const line = html(tip, 'div');
				const key = html(line, 'span', {className: 'key'});
				key.style.background = colour(chart, t, i);
				const spread = p.low !== null && p.low !== p.high ? ` (${format(p.low)}–${format(p.high)})` : '';
				const value = chart.form === 'cdf' ? `${(p.value * 100).toFixed(2)} %` : `${format(p.value)} ${chart.y.unit ?? ''}`;
				line.append(`${t.name}: ${value}${spread}`);
			}
			cross.setAttribute('x1', px);
			cross.setAttribute('x2', px);
			cross.setAttribute('visibility', categories ? 'hidden' : 'visible');
			tip.hidden = false;
			const left = px / width * svg.clientWidth;
			tip.style.top = `${svg.getBoundingClientRect().top - canvas.getBoundingClientRect().top + 16}px`;
			tip.style.left = `${left + 14 + tip.offsetWidth < canvas.clientWidth ? left + 14 : Math.max(left - 14 - tip.offsetWidth, 0)}px`;
		}
		const pixel = new Map();
		for (const {points} of traces) for (const p of points) if (!pixel.has(p.x)) pixel.set(p.x, p.px);
		svg.addEventListener('pointermove', e => {
			const px = (e.clientX - svg.getBoundingClientRect().left) / svg.clientWidth * width;
			if (!places.length) return;
			current = places.reduce((best, v, k) => Math.abs(pixel.get(v) - px) < Math.abs(pixel.get(places[best]) - px) ? k : best, 0);
			show(places[current], categories ? px : pixel.get(places[current]));
		});
		svg.addEventListener('pointerleave', hide);
		svg.addEventListener('blur', hide);
		svg.addEventListener('keydown', e => {
			const step = {ArrowRight: 1, ArrowLeft: -1}[e.key];
			if (!step || !places.length) return;
			e.preventDefault();
			current = Math.min(Math.max(current + step, 0), places.length - 1);
			show(places[current], pixel.get(places[current]));
		});
	}

	function setUp(figure) {
		const select = figure.querySelector('select');
		const only = figure.querySelector('[data-chart]');
		const current = () => chartsById.get(select ? select.value : only.dataset.chart);
		const view = {logX: Boolean(current().x.log), logY: false, tail: false};
		const scales = figure.querySelector('.scales');
		const redraw = () => draw(figure, current(), view);
		function toggle(names, pressed, change) {
			const button = html(scales, 'button', {type: 'button'});
			const show = () => {
				button.textContent = names[pressed() ? 1 : 0];
				button.setAttribute('aria-pressed', pressed());
			};
			button.addEventListener('click', () => {
				change();
				show();
				redraw();
			});
			show();
		}
		const form = current().form;
		if (form === 'cdf') {
			toggle(['x: linear', 'x: log'], () => view.logX, () => { view.logX = !view.logX; });
			toggle(['y: at most', 'y: more than, log'], () => view.tail, () => { view.tail = view.logY = !view.tail; });
		} else if (form !== 'stack') {
			toggle(['y: linear', 'y: log'], () => view.logY, () => { view.logY = !view.logY; });
		}
		select?.addEventListener('change', redraw);
		redraw();
		return redraw;
	}

	const redraws = [...document.querySelectorAll('figure.chart')].map(setUp);
	for (const button of document.querySelectorAll('button.system')) {
		button.addEventListener('click', () => {
			const system = Number(button.dataset.system);
			if (!hidden.delete(system)) hidden.add(system);
			button.setAttribute('aria-pressed', !hidden.has(system));
			for (const redraw of redraws) redraw();
		});
	}
	document.getElementById('theme').addEventListener('click', () => {
		const root = document.documentElement;
		const dark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
		root.dataset.theme = dark ? 'light' : 'dark';
	});
})();
