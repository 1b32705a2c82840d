/** Charts of the last minutes: tokens a second, bytes loaded, hits and requests. */
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { onScheme } from './colour-scheme.js';
import { size } from './numbers.js';
import { type Sample, samples } from './server.js';

const CHARTS = [
  { name: 'tokens', title: 'Tokens a second', text: (value: number) => value.toFixed(value < 10 ? 1 : 0) },
  { name: 'bytes', title: 'Loaded a second', text: size },
  { name: 'hits', title: 'Found in memory', text: (value: number) => `${value.toFixed(0)} %` },
  { name: 'running', title: 'Sequences', text: String },
] as const;

const HEIGHT = 44;

export function Speed() {
  if (samples.value.length === 0) return null;
  return (
    <section class="view-Memory" aria-label="Speed">
      <h2>Speed</h2>
      <div class="charts">
        {CHARTS.map((chart) => (
          <Chart key={chart.name} {...chart} />
        ))}
      </div>
    </section>
  );
}

function Chart({ name, title, text }: (typeof CHARTS)[number]) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const { value: own } = samples;
  const last = own.findLast((sample: Sample) => !Number.isNaN(sample[name]));
  useEffect(() => {
    const box = place.current!;
    const stroke = () => getComputedStyle(box).getPropertyValue('--accent');
    const { clientWidth: width } = box;
    plot.current = new uPlot(
      {
        ...{ width, height: HEIGHT, legend: { show: false }, cursor: { show: false }, padding: [2, 2, 2, 2] },
        axes: [{ show: false }, { show: false }],
        scales: { y: { range: (_, __, most) => [0, Math.max(most, 1e-3)] } },
        series: [{}, { stroke, width: 1.5, points: { show: false }, spanGaps: true }],
      },
      [[], []],
      box,
    );
    const resized = new ResizeObserver(() =>
      plot.current?.setSize({ width: box.clientWidth, height: HEIGHT }),
    );
    resized.observe(box);
    const restyled = onScheme(() => plot.current?.redraw());
    return () => {
      resized.disconnect();
      restyled();
      plot.current?.destroy();
    };
  }, []);
  useEffect(() => {
    const values = own.map((sample) => (Number.isNaN(sample[name]) ? null : sample[name]));
    plot.current?.setData([own.map(({ time }) => time), values]);
  }, [own, name]);
  return (
    <figure>
      <figcaption>
        {title} <strong>{last === undefined ? '–' : text(last[name])}</strong>
      </figcaption>
      <div ref={place} aria-hidden="true" />
    </figure>
  );
}
