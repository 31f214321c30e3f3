<?php
return ['hello' => 'Hello, :name!'];
