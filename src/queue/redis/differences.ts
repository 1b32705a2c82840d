/** Says why two workers do not share a queue. */
import { differingParts } from '../../checkpoint/identity.js';
import { formatName } from '../../checkpoint/weight-format.js';
import type { PublishedModel } from './published-models.js';

/** What differs between published models, in the words of operators, such as `tokenizer` and `--activations`. */
export function differencesOf([first, ...others]: readonly PublishedModel[]): string[] {
  const found = new Set(others.flatMap((other) => differences(first!, other)));
  // Both were packed from the same files, but not to the same bytes.
  return found.size > 0 ? [...found] : ['packed files'];
}

function differences(a: PublishedModel, b: PublishedModel): string[] {
  const [one, other] = [choicesOf(a), choicesOf(b)];
  const names = Object.keys(one) as (keyof typeof one)[];
  return [
    ...differingParts(a.model.identity, b.model.identity),
    ...names.filter((name) => one[name] !== other[name]),
  ];
}

function choicesOf({ model, settings }: PublishedModel) {
  const { experts, dense } = model.formats;
  const predicted = settings.routing === 'predicted';
  return {
    '--experts': formatName(experts),
    '--dense': formatName(dense),
    '--activations': settings.activations,
    '--kv': settings.kv,
    '--device': settings.device,
    '--routing': settings.routing,
    '--routing-k': settings.routingK ?? null,
    '--predictor': predicted ? `${model.predictor.name} ${model.predictor.fingerprint}` : null,
  };
}
