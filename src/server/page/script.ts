export const PAGE_SCRIPT = `'use strict';
const byId = (id) => document.getElementById(id);
const make = (tag, className, text) => {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
};
const size = (bytes) => {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  while (bytes >= 1024 && unit < 4) { bytes /= 1024; unit += 1; }
  return (unit === 0 ? bytes : bytes.toFixed(bytes >= 100 ? 0 : 1)) + ' ' + units[unit];
};

// The key is kept for this tab only, and travels in a header, never in an address.
const STORED = 'sida-key';
const storedKey = () => sessionStorage.getItem(STORED) || '';

class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}
/** Throws Refused for an answer that is an error; fetch throws TypeError when there is no answer. */
async function ask(path, options = {}) {
  const headers = { ...options.headers };
  if (storedKey()) headers.authorization = 'Bearer ' + storedKey();
  const answer = await fetch(path, { ...options, headers, cache: 'no-store' });
  const body = await answer.json().catch(() => undefined);
  if (body === undefined) throw new Refused(answer.status, 'The answer was not JSON (HTTP ' + answer.status + ')');
  if (!answer.ok && body.error) throw new Refused(answer.status, body.error.message);
  return body;
}

/** Sections that this key will not open; they are not asked for again until the key changes. */
const closed = new Map();
function showAccess() {
  const needsKey = [...closed.values()].includes(401);
  byId('access').hidden = !needsKey && !storedKey();
  byId('access-text').textContent = needsKey
    ? storedKey() ? 'The server does not know this key.' : 'This server asks for an API key.'
    : 'A key is in use until this tab is closed.';
  byId('access-form').className = needsKey ? 'needed' : 'given';
  byId('forget').hidden = !storedKey();
  // A link sends no key, so these would be refused.
  byId('links').hidden = needsKey || storedKey() !== '';
}
function useKey(key) {
  if (key) sessionStorage.setItem(STORED, key);
  else sessionStorage.removeItem(STORED);
  byId('key').value = '';
  byId('answer').replaceChildren();
  closed.clear();
  model = undefined;
  byId('model').textContent = '';
  squares.clear();
  showAccess();
}
byId('access-form').addEventListener('submit', (event) => {
  event.preventDefault();
  const key = byId('key').value.trim();
  // The browser sends no header with other characters.
  if (/^[!-~]*$/.test(key)) useKey(key);
  else byId('access-text').textContent = 'This is no API key: a key has Latin letters, digits and signs, and no spaces.';
});
byId('forget').addEventListener('click', () => useKey(''));

/** Runs \`show\` for one section. When it is refused, the section says why, and the others go on. */
async function section(name, what, parts, show) {
  if (closed.has(name)) return;
  const text = byId(name + '-text');
  try {
    await show();
    for (const part of parts) byId(part).hidden = false;
    if (name !== 'budget') text.hidden = true;
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    for (const part of parts) byId(part).hidden = true;
    text.hidden = false;
    text.textContent = error.status === 401 ? 'Needs a key.'
      : error.status === 403 ? 'This key may not ' + what + '.' : error.message;
    if ([401, 403, 422].includes(error.status)) closed.set(name, error.status);
  }
}

let model;
async function showReadiness() {
  const badge = byId('ready');
  const state = await ask('/health/ready');
  const share = state.progress && state.progress.total > 0
    ? ' ' + Math.floor(100 * state.progress.done / state.progress.total) + ' %' : '';
  badge.textContent = state.phase + share;
  badge.title = state.reason || '';
  badge.className = 'badge ' + (state.status === 'ready' ? 'ok' : state.phase === 'failed' ? 'bad' : 'wait');
  return state.status === 'ready';
}
async function showModel() {
  if (model) return;
  model = (await ask('/v1/models')).data[0];
  byId('model').textContent = model ? model.id : 'no model yet';
  if (!model) throw new Refused(503, 'There is no model yet.');
  const names = Object.keys(model.tasks);
  if (names.length === 0) throw new Refused(422, 'This model declares no tasks.');
  byId('task').replaceChildren(...names.map((name) => new Option(name)));
  showFields();
}
function showFields() {
  const task = model && model.tasks[byId('task').value];
  if (!task) return;
  const names = [...new Set([...task.template.matchAll(/\\{([A-Za-z_]\\w*)\\}/g)].map((match) => match[1]))];
  byId('fields').replaceChildren(...names.map((name) => {
    const label = make('label', '', name + ' ');
    const input = make('input');
    input.name = name;
    input.required = true;
    label.append(input);
    return label;
  }));
}
async function showBudget() {
  const { device } = await ask('/admin/budget');
  byId('budget-used').style.width = 100 * device.used_bytes / device.budget_bytes + '%';
  byId('budget-peak').style.left = Math.min(99.7, 100 * device.peak_bytes / device.budget_bytes) + '%';
  byId('budget-text').textContent = size(device.used_bytes) + ' of ' + size(device.budget_bytes) + ' used, peak '
    + size(device.peak_bytes) + ', smallest workable ' + size(device.smallest_bytes);
}

const squares = new Map();
async function showExperts() {
  const { layers } = await ask('/admin/experts');
  if (squares.size === 0) byId('layers').replaceChildren(...layers.map(layerRow));
  let resident = 0;
  let total = 0;
  for (const { layer, experts } of layers) {
    for (const expert of experts) {
      const square = squares.get(layer + '/' + expert.index);
      const className = expert.state + (expert.pinned ? ' pinned' : '');
      if (square.className !== className) square.className = className;
      square.title = 'expert ' + expert.index + ': ' + expert.state + ', used ' + expert.uses + ' times';
      total += 1;
      if (expert.state === 'resident') resident += 1;
    }
  }
  byId('experts-count').textContent = resident + ' of ' + total + ' on the device';
}
function layerRow({ layer, experts }) {
  const row = make('div', 'layer');
  const grid = make('div');
  for (const { index } of experts) {
    const square = make('i');
    squares.set(layer + '/' + index, square);
    grid.append(square);
  }
  row.append(make('span', '', layer), grid);
  return row;
}

function costText(experts) {
  const { needed, resident, prefetched, late, on_demand, bytes_moved, stall_ms, predicted } = experts;
  const [narrow, wide, k] = experts.hits_top1 === undefined
    ? [experts.hits_top_k, experts.hits_top_2k, 'k and 2k']
    : [experts.hits_top1, experts.hits_top3, '1 and 3'];
  const found = needed + ' experts needed: ' + resident + ' resident, ' + prefetched + ' prefetched, ' + late + ' late, '
    + on_demand + ' on demand; ' + size(bytes_moved) + ' moved, ' + stall_ms.toFixed(1) + ' ms stalled. ';
  return found + (predicted === 0 ? 'No predictions.' : 'Of ' + predicted + ' predicted routings, '
    + narrow + ' and ' + wide + ' were to an expert among the first ' + k + ' names.');
}
function showScores({ label, scores }, experts) {
  const rows = Object.entries(scores).sort((a, b) => b[1] - a[1]).flatMap(([name, score]) => {
    const bar = make('div', 'bar');
    const fill = make('div');
    fill.style.width = 100 * score + '%';
    bar.append(fill);
    return [make(name === label ? 'strong' : 'span', '', name + ' ' + score.toFixed(3)), bar];
  });
  byId('answer').replaceChildren(...rows, make('p', 'quiet', costText(experts)));
}
byId('task').addEventListener('change', showFields);
byId('try').addEventListener('submit', async (event) => {
  event.preventDefault();
  const button = event.target.querySelector('button');
  button.disabled = true;
  try {
    const inputs = [...byId('fields').querySelectorAll('input')];
    const answer = await ask('/v1/classify', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        task: byId('task').value,
        input: Object.fromEntries(inputs.map((input) => [input.name, input.value])),
        include: ['experts'],
      }),
    });
    showScores(answer.data[0], answer.experts);
  } catch (error) {
    const reason = error instanceof Refused ? error.message : 'The server cannot be reached.';
    byId('answer').replaceChildren(make('p', 'error', reason));
  } finally {
    button.disabled = false;
  }
});

async function poll() {
  if (document.visibilityState === 'visible') {
    try {
      const ready = await showReadiness();
      await section('try', 'use the model', ['try'], showModel);
      if (ready) {
        await section('budget', 'see the budget', ['budget-bar'], showBudget);
        await section('experts', 'see the experts', ['legend', 'layers', 'experts-count'], showExperts);
      }
      showAccess();
    } catch (error) {
      byId('ready').textContent = error instanceof Refused ? error.message : 'unreachable';
      byId('ready').title = '';
      byId('ready').className = 'badge bad';
    }
  }
  setTimeout(poll, 1000);
}
poll();
`;
