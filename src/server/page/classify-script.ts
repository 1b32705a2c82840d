/** The part of the page's script that tries a classification. */
export const CLASSIFY_SCRIPT = `function showTasks() {
  if (!hasTasks(model)) {
    const able = models.filter(hasTasks).map(({ id }) => id);
    const hint = able.length > 0 ? ' Choose one that does above: ' + able.join(', ') + '.' : '';
    throw new Refused(404, 'This model declares no tasks.' + hint);
  }
  if (drawn === model.id) return;
  drawn = model.id;
  byId('task').replaceChildren(...Object.keys(model.tasks).map((name) => new Option(name)));
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
const MOST_SCORES = 6;
function showScores({ label, scores }, experts) {
  const ordered = Object.entries(scores).sort((a, b) => b[1] - a[1]);
  const others = ordered.slice(MOST_SCORES);
  const rows = ordered.slice(0, MOST_SCORES).flatMap(([name, score]) => {
    const bar = make('div', 'bar');
    const fill = make('div');
    fill.style.width = 100 * score + '%';
    bar.append(fill);
    return [make(name === label ? 'strong' : 'span', '', name + ' ' + score.toFixed(3)), bar];
  });
  if (others.length > 0) {
    const rest = others.reduce((sum, [, score]) => sum + score, 0);
    rows.push(make('p', 'quiet', 'and ' + others.length + ' others: ' + rest.toFixed(3)));
  }
  if (experts) rows.push(make('p', 'quiet', costText(experts)));
  byId('answer').replaceChildren(...rows);
}
byId('task').addEventListener('change', showFields);
byId('try').addEventListener('submit', async (event) => {
  event.preventDefault();
  const button = event.target.querySelector('button');
  button.disabled = true;
  try {
    const inputs = [...byId('fields').querySelectorAll('input')];
    const answer = await ask('/v1/classify', posted({
      ...(models.length > 1 && { model: model.id }),
      task: byId('task').value,
      input: Object.fromEntries(inputs.map((input) => [input.name, input.value])),
      ...(closed.get('experts') !== 403 && { include: ['experts'] }),
    }));
    showScores(answer.data[0], answer.experts);
  } catch (error) {
    byId('answer').replaceChildren(make('p', 'error', reasonOf(error)));
  } finally {
    button.disabled = false;
  }
});
`;
