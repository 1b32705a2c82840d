/** A coming visit of a MoE layer, with the experts that it may need. */
export interface PlannedVisit {
  /** Flat id of the layer's first expert. */
  firstId: number;
  /** Of the layer. */
  experts: number;
  /** Flat ids of those with a chance, ascending. */
  ids: readonly number[];
  /** (ids), the chance that the visit needs the expert. */
  chances: readonly number[];
}
