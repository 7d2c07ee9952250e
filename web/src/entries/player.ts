// The web component <sluice-player>, for pages of others.

import "../ui/element.js";
