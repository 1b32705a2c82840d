import { PassThrough } from 'node:stream';
import { expect, it } from 'vitest';
import { formatSeconds, TrainProgress } from '../../../src/cli/train-progress.js';
import type { Measures } from '../../../src/predictor/training/measures.js';

const measures = (loss: number): Measures => ({
  loss,
  distillation: loss,
  crossEntropy: loss,
  hits: [0.251, 0.4, 0.505],
  layers: [],
});

function out(isTTY: boolean): { stream: NodeJS.WriteStream; text: () => string } {
  const stream = new PassThrough();
  let text = '';
  stream.on('data', (piece: Buffer) => {
    text += piece.toString();
  });
  return {
    stream: Object.assign(stream, { isTTY, columns: 200, cursorTo() {}, clearLine() {} }) as never,
    text: () => text,
  };
}

it('formats times in hours, minutes and seconds', () => {
  expect([0, 59.6, 72, 3600, 7380].map(formatSeconds)).toEqual(['0s', '1m00s', '1m12s', '1h00m', '2h03m']);
});

it('writes one line per evaluation when there is no terminal', () => {
  const { stream, text } = out(false);
  const progress = new TrainProgress(stream);
  const shown = { network: 'encoder', step: 1, epoch: 0, train: undefined, heldOut: undefined } as const;
  progress.show({ ...shown, done: 0 });
  expect(text()).toBe('');
  progress.measured({
    network: 'encoder',
    step: 250,
    epoch: 0.5,
    seconds: 1,
    learningRate: 1,
    train: { ...measures(1.5), gradientNorm: 1 },
    heldOut: measures(1.25),
    best: true,
  });
  expect(text()).toBe(
    'encoder step 250 (epoch 0.50); loss 1.5000, hits 25.1/50.5 %; held out 1.2500, 25.1/50.5 %, the best so far\n',
  );
});

it('draws a bar with loss, hit rates and the time left on a terminal', () => {
  const { stream, text } = out(true);
  const progress = new TrainProgress(stream);
  const shown = { network: 'decoder', epoch: 0, train: measures(2), heldOut: measures(1) } as const;
  progress.show({ ...shown, step: 1, done: 0.1 });
  progress.show({ ...shown, step: 2, done: 0.5 });
  progress.stop();
  expect(text()).toMatch(/decoder .*50 % {2}step 2 {2}loss 2\.000 {2}hits 25\.1\/50\.5 % .*\d+s left/s);
});
