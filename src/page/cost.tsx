/** What an answer cost, in words. */
import type { AnswerAbout, ExpertCost } from './conversations.js';
import { count, seconds, size } from './numbers.js';

export function CostText({ experts }: { experts: ExpertCost }) {
  const { needed, resident, prefetched, late, on_demand, peer, cpu, bytes_moved } = experts;
  const parts = [
    `${count(resident)} resident`,
    ...(prefetched > 0 ? [`${count(prefetched)} prefetched`] : []),
    ...(late > 0 ? [`${count(late)} late`] : []),
    ...(on_demand > 0 ? [`${count(on_demand)} on demand`] : []),
    ...(peer > 0 ? [`${count(peer)} by peers`] : []),
    ...(cpu > 0 ? [`${count(cpu)} by the CPU`] : []),
  ];
  return (
    <>
      {count(needed)} experts needed: {parts.join(', ')}; {size(bytes_moved)} loaded.
    </>
  );
}

/** Fewer tokens, or less time, come in one or two pieces of the network and say nothing of the speed. */
const LEAST_TOKENS = 8;
const LEAST_SECONDS = 0.02;

/** Tokens a second from the first token on. Undefined for answers that are too short to tell. */
export const speedOf = ({ tokens, restSeconds }: Pick<AnswerAbout, 'tokens' | 'restSeconds'>) =>
  tokens >= LEAST_TOKENS && restSeconds >= LEAST_SECONDS ? (tokens - 1) / restSeconds : undefined;

export const speedText = (speed: number) => speed.toFixed(speed < 10 ? 1 : 0);

export function AboutText({ about }: { about: AnswerAbout }) {
  const speed = speedOf(about);
  const { tokens, firstSeconds, promptTokens, cachedTokens, cut, stopped, experts, budget } = about;
  return (
    <>
      {stopped && 'Stopped. '}
      {cut && 'The answer reached its limit of tokens. '}
      {count(tokens)} {tokens === 1 ? 'token' : 'tokens'}
      {speed !== undefined && `, ${speedText(speed)} a second`}, the first after {seconds(firstSeconds)}
      {promptTokens > 0 && `; prompt ${count(promptTokens)}`}
      {cachedTokens > 0 && `, ${count(cachedTokens)} of them cached`}
      {budget !== undefined && `; within ${size(budget)}`}.{' '}
      {experts !== undefined && <CostText experts={experts} />}
    </>
  );
}
