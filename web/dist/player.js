import"./chunk-ALGFLA2D.js";import"./chunk-VN5NWJ3F.js";import"./chunk-QYY5N45H.js";
