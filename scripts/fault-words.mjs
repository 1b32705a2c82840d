// How the result of a fault reads, in the terminal and in the table.
export function verdict({ passed, limits }) {
  if (!passed) return 'FAIL';
  return limits.every(({ met }) => met) ? 'PASS' : 'MISSED';
}

export function figuresOf({ figures, limits }) {
  return [...figures, ...limits.map(limitWords)];
}

function limitWords({ what, value, limit, unit, least, met }) {
  const digits = Math.abs(value) < 10 ? 2 : 0;
  const number = Number(value.toFixed(digits));
  return `${what} ${number} ${unit} (${met ? '' : 'missed: '}${least ? '≥' : '≤'} ${limit})`;
}
