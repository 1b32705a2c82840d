/** Logs each change of a governor's state. */
import type { EngineHandle } from '../engine/engine-handle.js';
import type { Logger } from '../observability/logger.js';
import type { GovernorState, Source } from '../protocol/governor-figures.js';

const NAMES: Record<Source, string> = { tables: 'prediction', look_ahead: 'looking ahead' };

function message(source: Source, state: GovernorState): string {
  const name = NAMES[source];
  switch (state) {
    case 'active':
      return `${name} saves time and goes on`;
    case 'resting':
      return `${name} rests, because it saves no time`;
    case 'probing':
      return `${name} is compared with none`;
    case 'not_needed':
      return `${name} is not needed: every expert has a slot`;
    case 'off':
      return `${name} is off: ${source === 'tables' ? 'there is no predictor' : 'no layer looks ahead'}`;
  }
}

export function logGovernor(engine: EngineHandle, logger: Logger): void {
  engine.onGovernor?.((source, { state, gain, arms, switches, pauseSeconds }) => {
    const measured = { predict: rounded(arms.predict.seconds), rest: rounded(arms.rest.seconds) };
    const interval = gain && {
      mean: rounded(gain.mean),
      low: rounded(gain.low),
      high: rounded(gain.high),
      pairs: gain.pairs,
    };
    const numbers = { gain: interval, seconds: measured, switches, pauseSeconds: rounded(pauseSeconds) };
    logger.info({ source, state, ...numbers }, message(source, state));
  });
}

function rounded(value: number): number {
  return Math.round(value * 1e4) / 1e4;
}
