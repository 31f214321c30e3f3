<?php
$run();
