/** Makes the text of a scrape; whoever asks while it is being made gets the same one, so a crowd costs as one does. */
export function sharedScrape(make: () => Promise<string>): () => Promise<string> {
  let going: Promise<string> | undefined;
  return () => {
    going ??= make().finally(() => {
      going = undefined;
    });
    return going;
  };
}
