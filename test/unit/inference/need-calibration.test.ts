import { describe, expect, it } from 'vitest';
import { NeedCalibration } from '../../support/reference-planner/need-calibration.js';

const EXPERTS = 4;
const visit = (...need: number[]) => ({ firstId: 0, need: Float32Array.from(need) });
/** The corrected chances of all experts; 0 of those that are left out. */
const chancesOf = (calibration: NeedCalibration, forecast: ReturnType<typeof visit>) => {
  const { ids, chances } = calibration.corrected(forecast);
  return [...forecast.need.keys()].map((index) => chances[ids.indexOf(forecast.firstId + index)] ?? 0);
};
const chances = (calibration: NeedCalibration, ...need: number[]) => chancesOf(calibration, visit(...need));

describe('NeedCalibration', () => {
  it('trusts tables until it has seen an outcome', () => {
    const calibration = new NeedCalibration();
    expect(chances(calibration, 0, 0.5, 1, 0.25)).toEqual([0, 0.5, 1, 0.25]);
  });

  it('keeps trusting tables that are right', () => {
    const calibration = new NeedCalibration();
    for (let i = 0; i < 400; i++) {
      const needed = [0, 1, 2, 3].map((index) => (index === (i * 7) % 4 ? 1 : 0));
      calibration.learn(visit(...needed), needed);
    }
    const [first, second] = chances(calibration, 1, 0, 0, 0);
    expect(first).toBeGreaterThan(0.99);
    expect(second).toBeLessThan(0.01);
  });

  it('corrects a row of a table when it is first used, and not again', () => {
    const calibration = new NeedCalibration();
    const teach = () => {
      for (let i = 0; i < 20; i++) calibration.learn(visit(1, 0, 0, 1), [1, i % 2, 0, 0]);
    };
    teach();
    const waiting = visit(0, 0.5, 1, 0.25);
    const first = chancesOf(calibration, waiting);
    teach();
    expect(chancesOf(calibration, waiting)).toEqual(first);
    expect(chances(calibration, 0, 0.5, 1, 0.25)).not.toEqual(first);
    expect(chances(calibration, 0, 0.5, 1, 0.25)[0]).toBeGreaterThan(0.9);
    expect([...waiting.need]).toEqual([0, 0.5, 1, 0.25]);
  });

  it('leaves out experts that are as good as never needed', () => {
    const calibration = new NeedCalibration();
    for (let i = 0; i < 400; i++) calibration.learn(visit(1, 0, 0, 0), [1, 0, 0, 0]);
    expect(calibration.corrected(visit(1, 0, 0, 0)).ids).toEqual([0]);
  });

  it('learns that forecasts are too high or too low', () => {
    const calibration = new NeedCalibration();
    // A forecast of 0.9 comes true one time in four, one of 0.1 three times in four.
    for (let i = 0; i < 2000; i++) {
      calibration.learn(visit(0.9, 0.1, 0.9, 0.1), [
        i % 4 === 0 ? 1 : 0,
        i % 4 === 1 ? 0 : 1,
        i % 4 === 2 ? 1 : 0,
        i % 4 === 3 ? 0 : 1,
      ]);
    }
    const [promised, doubted] = chances(calibration, 0.9, 0.1, 0.9, 0.1);
    expect(promised).toBeLessThan(0.5);
    expect(doubted).toBeGreaterThan(0.5);
  });

  it('learns that recently used experts return if tables carry no information', () => {
    const calibration = new NeedCalibration();
    // One expert is needed for ten visits, then the next one.
    for (let i = 0; i < 8000; i++) {
      const needed = [0, 1, 2, 3].map((index) => (index === Math.floor(i / 10) % 4 ? 1 : 0));
      calibration.learn(visit(0.25, 0.25, 0.25, 0.25), needed);
    }
    calibration.learn(visit(0.25, 0.25, 0.25, 0.25), [0, 0, 1, 0]);
    const [first, , recent] = chances(calibration, 0.25, 0.25, 0.25, 0.25);
    expect(recent).toBeGreaterThan(0.75);
    expect(first).toBeLessThan(0.25);
  });

  it('weighs tables with 1 at first, high if they are right, near 0 if random, negative if inverted', () => {
    const [right, random, opposite] = Array.from({ length: 3 }, () => new NeedCalibration());
    expect(right!.tableWeight).toBe(1);
    for (let i = 0; i < 2000; i++) {
      const needed = [0, 1, 2, 3].map((index) => (index === (i * 7) % 4 ? 1 : 0));
      const other = [0, 1, 2, 3].map((index) => (index === Math.floor(i / 4) % 4 ? 1 : 0));
      right!.learn(visit(...needed), needed);
      random!.learn(visit(...other), needed);
      opposite!.learn(visit(...needed.map((each) => 1 - each)), needed);
    }
    expect(right!.tableWeight).toBeGreaterThan(0.5);
    expect(Math.abs(random!.tableWeight)).toBeLessThan(0.2);
    expect(opposite!.tableWeight).toBeLessThan(-0.5);
  });

  it('learns each layer separately', () => {
    const calibration = new NeedCalibration();
    for (let i = 0; i < 200; i++) calibration.learn(visit(1, 0, 0, 0), [0, 0, 0, 1]);
    const other = { firstId: EXPERTS, need: Float32Array.of(1, 0, 0, 0) };
    expect(chancesOf(calibration, other)).toEqual([1, 0, 0, 0]);
    expect(chances(calibration, 1, 0, 0, 0)[3]).toBeGreaterThan(0.9);
  });
});
