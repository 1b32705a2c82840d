/** Logs each change of the governor's state. */
import type { EngineHandle } from '../engine/engine-handle.js';
import type { Logger } from '../observability/logger.js';
import type { GovernorFigures, GovernorState } from '../protocol/governor-figures.js';

const MESSAGES: Record<GovernorState, string> = {
  active: 'prediction saves time and goes on',
  resting: 'prediction rests, because it saves no time',
  probing: 'prediction is compared with none',
  not_needed: 'prediction is not needed: every expert has a slot',
  off: 'prediction is off: there is no predictor',
};

export function logGovernor(engine: EngineHandle, logger: Logger): void {
  engine.onGovernor?.(({ state, gain, arms, switches, pauseSeconds }: GovernorFigures) => {
    const measured = { predict: rounded(arms.predict.seconds), rest: rounded(arms.rest.seconds) };
    const interval = gain && {
      mean: rounded(gain.mean),
      low: rounded(gain.low),
      high: rounded(gain.high),
      pairs: gain.pairs,
    };
    const numbers = { gain: interval, seconds: measured, switches, pauseSeconds: rounded(pauseSeconds) };
    logger.info({ state, ...numbers }, MESSAGES[state]);
  });
}

function rounded(value: number): number {
  return Math.round(value * 1e4) / 1e4;
}
