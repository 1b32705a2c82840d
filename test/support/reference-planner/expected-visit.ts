/** One future visit of a MoE layer, as a table tells it. */
export interface ExpectedVisit {
  /** Flat id of the layer's first expert. */
  firstId: number;
  /** (experts per layer), probability that the layer will need the expert. */
  need: Float32Array;
}
