import { expect, it } from 'vitest';
import { SoloGate } from '../../../../src/queue/redis/solo-gate.js';

/** Asks to enter. `inside` becomes true once the gate admits the job. */
function enter(gate: SoloGate, solo: boolean): { inside: boolean; leave: () => void } {
  const state = { inside: false, leave: (): void => undefined };
  void gate.enter(solo).then((leave) => {
    state.inside = true;
    state.leave = leave;
  });
  return state;
}
const turn = () => new Promise((resolve) => setImmediate(resolve));

it('admits jobs together, but a suspect only alone', async () => {
  const gate = new SoloGate();
  const [a, b, suspect, c] = [false, false, true, false].map((solo) => enter(gate, solo)) as [
    ReturnType<typeof enter>,
    ReturnType<typeof enter>,
    ReturnType<typeof enter>,
    ReturnType<typeof enter>,
  ];
  const inside = () => [a, b, suspect, c].map((job) => job.inside);
  await turn();
  expect(inside()).toEqual([true, true, false, false]);
  a.leave();
  await turn();
  expect(suspect.inside).toBe(false);
  b.leave();
  await turn();
  // The jobs behind the suspect wait until it has left.
  expect([suspect.inside, c.inside]).toEqual([true, false]);
  suspect.leave();
  suspect.leave();
  await turn();
  expect(c.inside).toBe(true);
});
