// Which tensors of a checkpoint grow with the feed-forward width, and what they become.
import { SidaError } from '../../../dist/errors.js';

/**
 * By `model_type`: the config's names of the numbers, the matrices (ff, d) that get rows, and those (d, ff) that get
 * columns. Switch Transformers has one width for its experts and for its plain layers, so both grow.
 */
const FAMILIES = {
  switch_transformers: {
    width: 'd_ff',
    model: 'd_model',
    rows: /^(?:en|de)coder\.block\.\d+\.layer\.\d+\.mlp\.(?:experts\.expert_\d+\.)?wi\.weight$/,
    columns: /^(?:en|de)coder\.block\.\d+\.layer\.\d+\.mlp\.(?:experts\.expert_\d+\.)?wo\.weight$/,
    matrices: 2,
  },
  olmoe: {
    width: 'intermediate_size',
    model: 'hidden_size',
    rows: /^model\.layers\.\d+\.mlp\.experts\.\d+\.(?:gate|up)_proj\.weight$/,
    columns: /^model\.layers\.\d+\.mlp\.experts\.\d+\.down_proj\.weight$/,
    matrices: 3,
  },
};
const ELEMENT_BYTES = { F32: 4, F16: 2, BF16: 2 };
/** The engine's limit, native/src/model/families/config_limits.h. */
const MAX_WIDTH = 2 ** 18;
/** Widths found from bytes are whole panels of the engine's matrices. */
const WIDTH_STEP = 32;

const invalid = (message, param) => new SidaError({ code: 'invalid_request', message, param });

/** The family of a config and its widths. Throws invalid_request for one that this script does not know. */
export function familyOf(config) {
  const { model_type: type } = config;
  if (!Object.hasOwn(FAMILIES, type)) {
    throw invalid(`model_type is ${type}, expected one of ${Object.keys(FAMILIES).join(', ')}`, 'model');
  }
  const family = FAMILIES[type];
  for (const field of [family.width, family.model]) {
    if (!Number.isInteger(config[field]) || config[field] < 1) {
      throw invalid(`config.json: ${field} is ${config[field]}, expected a whole number above 0`, 'model');
    }
  }
  return { ...family, name: type, ff: config[family.width], d: config[family.model] };
}

/** Throws invalid_request for a width that the model has already, or that the engine refuses. */
export function checkWidth(family, width, param) {
  if (!Number.isInteger(width) || width <= family.ff || width > MAX_WIDTH) {
    throw invalid(
      `a width of ${width}: expected a whole number above the model's ${family.ff} and at most ${MAX_WIDTH}`,
      param,
    );
  }
}

/** A matrix of an expert. Throws invalid_request for a model without one. `tensors` is of every file. */
export function anyExpert(family, tensors) {
  const expert = tensors.find(({ name }) => isExpert(name) && family.columns.test(name));
  if (expert !== undefined) return expert;
  throw invalid(`no tensor of an expert found, expected names like ${family.columns.source}`, 'model');
}

/** The bytes of an expert of a width. `matrix` is one of its matrices. */
export const expertBytes = (family, matrix, width) =>
  family.matrices * family.d * elementBytes(matrix) * width;

/** The least width, in whole panels, with which an expert has at least `bytes`. */
export function widthForBytes(family, matrix, bytes) {
  return Math.ceil(bytes / expertBytes(family, matrix, 1) / WIDTH_STEP) * WIDTH_STEP;
}

/**
 * What each tensor becomes: its new shape and bytes, and the rows to copy with the bytes of one before and after.
 * Throws invalid_request where an expert's tensor is not a matrix that can be padded.
 */
export const padTensors = (family, tensors, width) =>
  tensors.map((tensor) => padTensor(family, tensor, width));

const isExpert = (name) => /\.experts\./.test(name);

function elementBytes({ name, dtype }) {
  if (Object.hasOwn(ELEMENT_BYTES, dtype)) return ELEMENT_BYTES[dtype];
  const types = Object.keys(ELEMENT_BYTES).join(', ');
  throw invalid(`tensor ${name} is of ${dtype}, expected one of ${types}`, 'model');
}

function padTensor(family, tensor, width) {
  const { name, shape, bytes } = tensor;
  const rows = family.rows.test(name);
  if (!rows && !family.columns.test(name)) {
    if (isExpert(name)) throw invalid(`tensor ${name} of an expert is none that can be padded`, 'model');
    return { ...tensor, copy: { count: 1, from: bytes, to: bytes }, newBytes: bytes };
  }
  const expected = rows ? [family.ff, family.d] : [family.d, family.ff];
  if (shape.join() !== expected.join()) {
    throw invalid(`tensor ${name} is [${shape.join(', ')}], expected [${expected.join(', ')}]`, 'model');
  }
  const size = elementBytes(tensor);
  const newBytes = family.d * width * size;
  // New rows follow the old ones. New columns end every row.
  const copy = rows
    ? { count: 1, from: bytes, to: newBytes }
    : { count: family.d, from: family.ff * size, to: width * size };
  return { ...tensor, shape: rows ? [width, family.d] : [family.d, width], copy, newBytes };
}
