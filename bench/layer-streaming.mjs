// Whole-layer streaming, what DeepSpeed ZeRO-Inference does and the SiDA paper compares with: before a MoE layer
// computes, all its experts are on the device; while it computes, those of the next layer come in, in order. It knows
// nothing of tokens. Built on the engine's own plans, so that disk, slots and kernels are those of every other system.

const RESIDENT = 2;
/** Keys: an expert of the layer at hand, of the next, and what may go. */
const NOW = 0;
const NEXT = 1;
const GONE = 2;
/** How often a layer that waits looks again. */
const POLL_MS = 0.3;

export class LayerStreaming {
  #engine;
  #experts;
  #layers;
  #next = 0;
  #bell = new Int32Array(new SharedArrayBuffer(4));
  /** Time that layers waited for their experts. */
  waitMs = 0;

  /** Throws where a layer and one expert of the next do not fit the slots. */
  constructor(engine) {
    this.#engine = engine;
    this.#experts = engine.shape.experts;
    this.#layers = engine.shape.moeLayers.length;
    const { slots } = engine.usage();
    if (slots <= this.#experts) {
      throw new Error(
        `whole layers of ${this.#experts} experts need more than the ${slots} slots of this budget`,
      );
    }
  }

  /** Of a pass that is about to begin: its first layer's experts come in. */
  start() {
    return this.#plan(undefined, new Set());
  }

  /** For `onRouted` of a pass whose first MoE layer is `first`: waits for the whole layer, then asks for the next. */
  onRouted(first) {
    return (layer, routed) => {
      this.#waitFor(first + layer);
      this.#next = (first + layer + 1) % this.#layers;
      return this.#plan(first + layer, new Set(routed));
    };
  }

  #plan(layer, needed) {
    const total = this.#layers * this.#experts;
    const keys = new Float64Array(total).fill(GONE);
    const first = this.#next * this.#experts;
    keys.fill(NEXT, first, first + this.#experts);
    const keysAfter = keys.slice();
    // What the layer does not need has served its turn: that much earlier than in a real one the next comes in.
    if (layer !== undefined) for (const index of needed) keys[layer * this.#experts + index] = NOW;
    const loads = Uint32Array.from({ length: this.#experts }, (_, index) => first + index);
    return { keys, keysAfter, loads, newestFirst: false };
  }

  #waitFor(layer) {
    const begin = performance.now();
    const first = layer * this.#experts;
    const whole = () =>
      this.#engine
        .residency()
        .state.subarray(first, first + this.#experts)
        .every((state) => state === RESIDENT);
    while (!whole()) Atomics.wait(this.#bell, 0, 0, POLL_MS);
    this.waitMs += performance.now() - begin;
  }
}
