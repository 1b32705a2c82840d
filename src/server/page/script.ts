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
async function ask(path, options) {
  const answer = await fetch(path, options);
  const body = await answer.json();
  if (!answer.ok && body.error) throw new Error(body.error.message);
  return body;
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
  if (!model) return;
  byId('model').textContent = model.id;
  const names = Object.keys(model.tasks);
  byId('task').replaceChildren(...names.map((name) => new Option(name)));
  byId('try').hidden = names.length === 0;
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
    byId('answer').replaceChildren(make('p', 'error', error.message));
  } finally {
    button.disabled = false;
  }
});

async function poll() {
  if (document.visibilityState === 'visible') {
    try {
      const ready = await showReadiness();
      await showModel();
      if (ready) await Promise.all([showBudget(), showExperts()]);
    } catch {
      byId('ready').textContent = 'unreachable';
      byId('ready').className = 'badge bad';
    }
  }
  setTimeout(poll, 1000);
}
poll();
`;
