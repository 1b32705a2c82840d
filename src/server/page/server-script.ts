/** The part of the page's script that shows the server: readiness, models, budget and experts. */
export const SERVER_SCRIPT = `/** The models of the server, and the one that the page shows. */
let models = [];
let model;
/** Whether the visitor chose \`model\`. */
let picked = false;
/** Whether \`models\` has all of them, and the model whose tasks are drawn. */
let complete = false;
let drawn;

function choose(next) {
  picked = next !== undefined;
  show(next);
}
function show(next) {
  model = next;
  byId('models').value = next ? next.id : '';
  drawn = undefined;
  byId('answer').replaceChildren();
  squares.clear();
}

async function showReadiness() {
  const badge = byId('ready');
  const state = await ask('/health/ready');
  const share = state.progress && state.progress.total > 0
    ? ' ' + Math.floor(100 * state.progress.done / state.progress.total) + ' %' : '';
  badge.textContent = (state.status === 'degraded' ? 'degraded' : state.phase) + share;
  badge.title = state.reason || '';
  const bad = state.status === 'not_ready' && state.phase === 'failed';
  badge.className = 'badge ' + (state.status === 'ready' ? 'ok' : bad ? 'bad' : 'wait');
  return state.status !== 'not_ready';
}
const hasTasks = ({ tasks }) => Object.keys(tasks).length > 0;
/** Asks for the models until all are known. Throws Refused while there is none. */
async function listModels(ready) {
  if (!complete) {
    models = (await ask('/v1/models')).data;
    // Models that are not open yet are not listed.
    complete = ready && models.length > 0;
    byId('models').replaceChildren(...models.map(({ id }) => new Option(id)));
    const shown = models.find(({ id }) => model && id === model.id);
    // Models open one after another, and the first need not be the one with something to try.
    const next = shown && (picked || hasTasks(shown)) ? shown : models.find(hasTasks) || shown || models[0];
    if (next !== undefined && next === shown) model = next;
    else show(next);
    byId('models').value = model ? model.id : '';
    byId('models').hidden = models.length < 2;
    byId('model').textContent = models.length > 1 ? '' : model ? model.id : 'no model yet';
  }
  if (!model) throw new Refused(503, 'There is no model yet.');
}
byId('models').addEventListener('change', () => {
  closed.clear();
  choose(models.find(({ id }) => id === byId('models').value));
  chatFollows();
});
/** A path of the model that the page shows. */
function ofModel(path) {
  return models.length < 2 || !model ? path : path + '?model=' + encodeURIComponent(model.id);
}

async function showBudget() {
  const asked = model;
  const { device } = await ask(ofModel('/admin/budget'));
  if (asked !== model) return;
  byId('budget-used').style.width = 100 * device.used_bytes / device.budget_bytes + '%';
  byId('budget-peak').style.left = Math.min(99.7, 100 * device.peak_bytes / device.budget_bytes) + '%';
  byId('budget-text').textContent = size(device.used_bytes) + ' of ' + size(device.budget_bytes) + ' used, peak '
    + size(device.peak_bytes) + ', smallest workable ' + size(device.smallest_bytes);
  const { kv, experts } = device;
  byId('budget-split').textContent = 'KV pages: ' + size(kv.used_bytes) + ' in use, ' + size(kv.cached_bytes)
    + ' cached, ' + size(kv.free_bytes) + ' free. Experts: ' + size(experts.resident_bytes) + ' of '
    + size(experts.slot_bytes) + '.';
}

const squares = new Map();
/** How often each expert had been used when the page last asked, and when the page last saw that number grow. */
const uses = new WeakMap();
/** Milliseconds for which an expert is marked as just used. */
const USED_MS = 600;
async function showExperts() {
  const asked = model;
  const { layers } = await ask(ofModel('/admin/experts'));
  // Another model may have been chosen meanwhile.
  if (asked !== model) return;
  if (squares.size === 0) byId('layers').replaceChildren(...layers.map(layerRow));
  const now = performance.now();
  let resident = 0;
  let total = 0;
  for (const { layer, experts } of layers) {
    for (const expert of experts) {
      const square = squares.get(layer + '/' + expert.index);
      const before = uses.get(square);
      const usedAt = before && expert.uses > before.count ? now : before ? before.usedAt : -Infinity;
      uses.set(square, { count: expert.uses, usedAt });
      const used = now - usedAt < USED_MS;
      const className = expert.state + (expert.pinned ? ' pinned' : '') + (used ? ' used' : '');
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
const expertsSection = () =>
  section('experts', 'see the experts', ['legend', 'layers', 'experts-count'], showExperts);
`;
