/** One bad (or odd but sound) model of the corpus, and what the command line must make of it. */
export interface CheckpointCase {
  /** Number in the list of the corpus. */
  item: number;
  what: string;
  /** Damages a sound checkpoint (or pack) that lies in `directory`. */
  harm: (directory: string) => void;
  /** Parts of the one line; undefined: the model is taken. */
  says?: (string | RegExp)[];
  /** With `says`: the model may also be taken. */
  orTaken?: boolean;
}
