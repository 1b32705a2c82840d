/**
 * How KV pages and experts share the device at a moment. All figures are bytes. The KV cache takes
 * `used + cached + free`, and experts may take `slots`.
 */
export interface MemorySplit {
  kv: {
    /** Pages of running sequences. */
    used: number;
    /** Pages that only the prefix cache keeps. */
    cached: number;
    free: number;
  };
  experts: {
    slots: number;
    /** Experts on the device. */
    resident: number;
  };
}
