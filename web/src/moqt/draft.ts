// The drafts of MoQT that this client speaks. They differ in a few messages; data streams are the same in all of them.

/** Draft is the version of a session, numbered as its Internet-Draft. */
export type Draft = 18 | 19 | 20 | 21 | 22;

/** drafts are the drafts, most preferred first. */
export const drafts: Draft[] = [22, 21, 20, 19, 18];

/** protocols are the drafts as WT-Available-Protocols has them, most preferred first. */
export const protocols = drafts.map((d) => `moqt-${d}`);

/** draftOf returns the draft that the relay has chosen. A relay that says nothing has taken the first: the browser does
 * not send the list, or does not tell the choice. */
export function draftOf(protocol: string | undefined): Draft {
  if (!protocol) return drafts[0]!;
  const draft = drafts[protocols.indexOf(protocol)];
  if (!draft) throw new Error(`the relay speaks ${protocol}, and this page ${protocols.join(", ")}`);
  return draft;
}
